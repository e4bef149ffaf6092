// A GBNF grammar that says which tokens may come next, as libllama's grammar sampler has it, with guards against what it
// would abort on. `draftscope.engine.gbnf` has refused texts that libllama would read for ever.
#pragma once

#include "model.h"

#include <string>
#include <vector>

namespace draftscope {

class Grammar {
public:
    using Candidates = std::vector<llama_token_data>;

    // Its first rule is `root`. Throws EngineError(bad_grammar): libllama refuses the text, or the model has no tokenizer.
    Grammar(const Model & model, const std::string & gbnf);

    // Leave out what may not come next; the others keep their order.
    void filter(Candidates & candidates);

    bool allows(int32_t token);

    // Whether the text may end here. A model without an end-of-generation token cannot be asked: true.
    bool may_end();

    // Go on by a token. False: it was allowed, and yet libllama's grammar has no state after it (rules that name tokens
    // may come to that); nothing else may be asked then.
    bool accept(int32_t token);

private:
    void keep_allowed(Candidates & candidates);
    void learn_first_bytes(const Model & model);

    SamplerPtr sampler;
    int32_t    end_token = -1;    // an end-of-generation token
    bool       is_spent  = false;

    // Where whole characters decide, a token cannot come when its first character cannot. By ASCII character: the token that
    // is this character alone, -1 for none. By token: its first byte, 0 where that says nothing.
    bool                  names_tokens = false;
    std::vector<int32_t>  alone;
    std::vector<uint8_t>  first_byte;
    const Model *         model;
};

}  // namespace draftscope
