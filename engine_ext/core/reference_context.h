// A second target context, made only to be compared with: it takes a slot's state at an earlier position,
// decodes the tokens behind it anew, and says what recurrent state that gives. What a native rollback left is compared with
// it, since nothing is saved there.
#pragma once

#include "scheduler.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace draftscope {

class ReferenceContext {
public:
    explicit ReferenceContext(const Contexts & contexts_) : contexts(contexts_) {}

    // whole: the slot's state as it is, keys and values included. state: its recurrent state before `position`, PARTIAL_ONLY.
    // The tokens from there on are those to decode. Empty: there is no memory for such a context, or libllama does not take
    // the state into it.
    enum class How { Together, Twice, OneByOne };    // Twice: in two sequences at once, so that kernels for more rows run
    std::vector<uint8_t> state_after(std::span<const uint8_t> whole, std::span<const uint8_t> state, int32_t position, std::span<const int32_t> tokens,
                                     How how);

private:
    bool make();
    bool take(std::span<const uint8_t> whole, std::span<const uint8_t> state, int32_t position, int32_t n_sequences);

    const Contexts &         contexts;
    std::unique_ptr<Decoder> decoder;
    bool                     is_refused = false;
};

}  // namespace draftscope
