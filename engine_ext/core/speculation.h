// Whether drafts are made, by which heads, and how long they may be.
#pragma once

#include "model.h"

#include <string>

namespace draftscope {

// How MTP layers make a draft of several tokens. The same names, in lower case, as in draftscope.engine.protocol.
//   SingleHead    one head, which is fed its own output row
//   ChainedHeads  one head for each draft step, with keys and values of its own
//   Assistant     a second model without keys of its own: it reads the target's, and stays at one position
enum class MtpFamily : uint8_t { None, SingleHead, ChainedHeads, Assistant };

struct Speculation {
    bool        is_active     = false;
    MtpFamily   family        = MtpFamily::None;
    int32_t     n_layer_nextn = 0;
    int32_t     n_draft_max   = 0;    // granted
    std::string reason;               // why nothing, or less than asked, is drafted
};

// assistant: null where the model brings its MTP layers itself, or where there are none.
Speculation plan_speculation(const Model & model, const Model * assistant, const ContextSettings & settings);

// Throws EngineError(unsupported_model) for an assistant on which libllama would end the process: its graph takes the
// target's embeddings and hidden rows, and drafts tokens of the target's vocabulary.
void check_assistant(const Model & model, const Model & assistant);

}  // namespace draftscope
