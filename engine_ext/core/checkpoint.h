// How the target goes back after a rejected draft: one interface for every mechanism, and the choice among them.
#pragma once

#include "companion.h"
#include "recorder.h"
#include "settings.h"
#include "slot.h"

#include <memory>
#include <string>

namespace draftscope {

class Checkpoint {
public:
    virtual ~Checkpoint() = default;

    virtual Mechanism mechanism() const = 0;

    // Whether a slot must be saved before its draft is verified. False for mechanisms that drop the tail.
    virtual bool saves() const = 0;

    // Whether the state at the slot's decoded position is saved already.
    virtual bool holds(const Slot & slot) const = 0;

    // Save the slot at its decoded position. False: no room; the slot must not draft this round.
    [[nodiscard]] virtual bool save(const Slot & slot) = 0;

    // The target decoded the slot's pending tokens and its draft; of these only the first `n_keep` positions are true.
    // Goes back, sets slot.n_decoded (before n_keep when tokens must be replayed), and returns None, or why it could not:
    // the slot's memory is then of no use and must be cleared.
    [[nodiscard]] virtual FallbackReason go_back(Slot & slot, int32_t n_keep) = 0;

    // The slot was cleared: what was saved for it is worth nothing any more.
    virtual void discard(int32_t slot) = 0;
};

// What was asked for, what was granted, and why, in words for the user.
struct WayBack {
    CheckpointMode asked             = CheckpointMode::Auto;
    Mechanism      granted           = Mechanism::None;
    int32_t        n_rs_seq_asked    = 0;
    int32_t        n_rs_seq_granted  = 0;
    std::string    why;
    int64_t        bytes_per_slot    = 0;    // of a saved state, where states are saved
};

// Choose for a target context that was made with n_rs_seq_asked.
WayBack choose_way_back(CheckpointMode asked, int32_t n_rs_seq_asked, int32_t n_draft_max, const Decoder & target, bool can_drop_tail);

std::unique_ptr<Checkpoint> make_checkpoint(Mechanism mechanism, Companion & companion, Recorder & recorder, int32_t n_slots);

}  // namespace draftscope
