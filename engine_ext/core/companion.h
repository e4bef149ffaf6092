// The ONLY place that changes llama memory. The companion is the MTP context's memory, which must mirror the target's:
// position by position the same tokens, except that between verification and the next draft it lacks the newest ones.
#pragma once

#include "decoder.h"

#include <cstdint>
#include <vector>

namespace draftscope {

// How many of the next calls fail as they would for real; for tests.
struct Faults {
    int32_t save = 0, restore = 0, drop_tail = 0;

    static bool take(int32_t & count) { return count > 0 && count-- > 0; }
};

class Companion {
public:
    // draft: null when nothing is drafted. Both borrowed.
    Companion(Decoder & target_, Decoder * draft_) : target(target_), draft(draft_) {}

    // Forget a slot in both contexts.
    void clear(int32_t slot);

    // Drop the positions from `position` on, in both. False: the target's memory cannot (the result of seq_rm is never
    // ignored); nothing is known about its tail then and the slot must be cleared.
    [[nodiscard]] bool drop_tail(int32_t slot, int32_t position);

    // Drop only what drafting put into the companion.
    [[nodiscard]] bool drop_drafted(int32_t slot, int32_t position);

    // Recurrent part of the target's state, on the host. Empty: libllama could not save it, or there is no memory for it.
    std::vector<uint8_t> save_state(int32_t slot) const;

    // Put it back and drop the target's positions from `position` on; the companion keeps its rows, which are true ones.
    // False: the sequence is wiped (libllama does that) or not at that position: clear the slot and prefill.
    [[nodiscard]] bool restore_state(int32_t slot, const std::vector<uint8_t> & state, int32_t position);

    // Whether the target and the companion hold exactly that many positions (the companion counts where there is one).
    bool in_step(int32_t slot, int32_t n_target, int32_t n_draft) const;

    // What the target's memory can do, found out by decoding two tokens and dropping one; every slot is empty after it.
    bool can_drop_tail();

    mutable Faults faults;

private:
    Decoder & target;
    Decoder * draft;
};

}  // namespace draftscope
