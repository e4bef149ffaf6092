// How the target goes back after a rejected draft: one interface for every mechanism.
#pragma once

#include "companion.h"
#include "recorder.h"
#include "slot.h"

#include <memory>

namespace draftscope {

// Memory that saved states held at most since the contexts were made.
struct SavedBytes {
    int64_t host = 0, device = 0;
};

class Checkpoint {
public:
    virtual ~Checkpoint() = default;

    virtual Mechanism mechanism() const = 0;

    // The mechanism that serves a slot now: another one than mechanism() after a fallback.
    virtual Mechanism mechanism_of(int32_t slot) const = 0;

    // Whether a slot must be saved before its draft is verified. False for mechanisms that drop the tail.
    virtual bool saves(int32_t slot) const = 0;

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

    // A new task begins in the slot: fallbacks of the task before are over.
    virtual void begin(int32_t slot) = 0;

    virtual SavedBytes saved_bytes() const = 0;
};

std::unique_ptr<Checkpoint> make_checkpoint(Mechanism mechanism, Companion & companion, Recorder & recorder, int32_t n_slots);

}  // namespace draftscope
