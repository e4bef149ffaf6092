// States of slots at earlier positions, in host memory: for models whose memory cannot drop a tail, an edited prompt goes on
// from the newest one within what it has in common with the slot. A budget in bytes for all slots together.
#pragma once

#include "mtp_state.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace draftscope {

struct PromptCheckpoint {
    int32_t              position = 0;    // tokens that the state has seen
    std::vector<uint8_t> state;           // of the target, without its keys and values
    MtpState             rows;            // of the MTP context at that position; empty when nothing is drafted
    std::vector<float>   logits;          // of the token behind it, where a prompt ended there; else empty

    int64_t size_bytes() const { return static_cast<int64_t>(state.size() + (rows.rows.size() + logits.size()) * sizeof(float)); }
};

class PromptCheckpoints {
public:
    // budget_bytes 0: none are kept. spacing: tokens between two of a slot, at most.
    PromptCheckpoints(int32_t n_slots, int64_t budget_bytes_, int32_t spacing_)
        : slots(static_cast<size_t>(n_slots)), tried_at(static_cast<size_t>(n_slots)), budget_bytes(budget_bytes_), spacing(spacing_) {}

    bool fits(int64_t size_bytes) const { return size_bytes <= budget_bytes; }

    // Tokens from n_decoded on after which the slot is to be saved, `spacing` after the checkpoint before; 0: now.
    int32_t until_due(int32_t slot, int32_t n_decoded) const { return std::max(0, last(slot, n_decoded) + spacing - n_decoded); }

    // Whether enough was decoded since the one before for another to be worth its bytes.
    bool is_worth_it(int32_t slot, int32_t n_decoded) const { return n_decoded - last(slot, n_decoded) >= least_gap; }

    // Keep it; whatever the budget has no room for then goes: first those that leave the smallest gap, a slot's newest
    // last. Returns what went.
    struct Gone {
        int32_t slot, position;
        int64_t size_bytes;
    };
    std::vector<Gone> add(int32_t slot, PromptCheckpoint checkpoint);

    // The slot is saved there, or was to be: whatever becomes of it, the next one is due a spacing later. Otherwise a slot
    // whose checkpoint finds no room, or loses it at once, would be due after every token.
    void tried(int32_t slot, int32_t position) { tried_at[static_cast<size_t>(slot)] = position; }

    // The newest at a position of at most `limit`; null when there is none. Borrowed until the next change.
    const PromptCheckpoint * newest(int32_t slot, int32_t limit) const;

    // Forget those behind position n: the tokens there are others now.
    void drop_behind(int32_t slot, int32_t n);

    void forget(int32_t slot);
    void                          put(int32_t slot, std::vector<PromptCheckpoint> checkpoints);
    const std::vector<PromptCheckpoint> & of(int32_t slot) const { return slots[static_cast<size_t>(slot)]; }

    int64_t size_bytes(int32_t slot) const;
    int64_t size_bytes() const;

private:
    static constexpr int32_t least_gap = 16;

    std::vector<PromptCheckpoint> & at(int32_t slot) { return slots[static_cast<size_t>(slot)]; }
    int32_t last(int32_t slot, int32_t n_decoded) const;
    std::pair<int32_t, size_t> least_missed(int32_t but_slot, int32_t but_position) const;
    std::vector<Gone> shrink(int32_t but_slot, int32_t but_position);

    std::vector<std::vector<PromptCheckpoint>> slots;    // in the order of positions
    std::vector<int32_t> tried_at;    // by slot
    int64_t budget_bytes;
    int32_t spacing;
};

}  // namespace draftscope
