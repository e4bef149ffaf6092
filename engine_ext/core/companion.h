// The ONLY place that changes llama memory. The companion is the MTP context's memory, which must mirror the target's:
// position by position the same tokens, except that between verification and the next draft it lacks the newest ones.
//
// libllama ends the process where a saved state is not what it expects. Each function here is called only where that
// cannot be; what cannot be known beforehand (sizes, room on a device, results of removals) is checked here.
#pragma once

#include "decoder.h"
#include "row_history.h"

#include <cstdint>
#include <vector>

namespace draftscope {

// How many of the next calls fail as they would for real; for tests. lost: the target has lost the slot when it is to go
// back to a saved state. cancel: all slots in flight are cancelled when decodes have asked so many times whether to go on.
struct Faults {
    int32_t save = 0, restore = 0, drop_tail = 0, device_room = 0, lost = 0, cancel = 0;

    static bool take(int32_t & count) { return count > 0 && count-- > 0; }
};

class Companion {
public:
    // draft: null when nothing is drafted; both borrowed. first_spare: sequence of slot 0's spare; -1: there are none.
    Companion(Decoder & target_, Decoder * draft_, int32_t first_spare_ = -1)
        : target(target_), draft(draft_), first_spare(first_spare_) {}

    // Forget a slot in both contexts, and its spare.
    void clear(int32_t slot);

    // Drop the positions from `position` on, in both. False: the target's memory cannot (the result of seq_rm is never
    // ignored), or would say that it can and be wrong: natively, a whole decode, a second time after it, or when others
    // were decoded meanwhile. Nothing is known about its tail then and the slot must be cleared.
    [[nodiscard]] bool drop_tail(int32_t slot, int32_t position);

    // The same in the target alone; the companion is brought in step by whoever knows what of its rows is still true.
    [[nodiscard]] bool drop_target_tail(int32_t slot, int32_t position);

    // Drop only what drafting put into the companion.
    [[nodiscard]] bool drop_drafted(int32_t slot, int32_t position);

    // Where the tensors of a saved state are: in the blob, or in device memory that libllama keeps, one state a slot.
    enum class Place { Host, Device };

    // Recurrent part of the target's state; of a device state the blob is without its tensors. The caller has made sure
    // of room on the device. Empty: libllama could not save it, or there is no memory for the blob.
    // memory: of an older state, to use again.
    std::vector<uint8_t> save_state(int32_t slot, Place place, std::vector<uint8_t> memory = {}) const;

    // Whether the slot's recurrent state has the size of a saved one. If not, restoring that one from the device would end
    // the process, and it cannot be this slot's.
    bool can_take(int32_t slot, int64_t saved_bytes) const;

    // Put it back and drop the target's positions from `position` on; the companion keeps its rows, which are true ones.
    // Of a device state the caller knows that it is the slot's newest one. False: the sequence is wiped (libllama does
    // that) or not at that position: clear the slot and prefill.
    [[nodiscard]] bool restore_state(int32_t slot, const std::vector<uint8_t> & state, Place place, int32_t position);

    // Bytes of the slot's recurrent state now.
    int64_t state_bytes(int32_t slot) const;

    // Whether a device state of that size can be made: libllama allocates where it cannot refuse, so it is tried first.
    bool has_device_room(int64_t size_bytes) const;

    // Let the slot's spare sequence share its recurrent state: the next decode of either gives it one of its own. Needs a
    // context with unified KV and a spare sequence for each slot.
    void share_state(int32_t slot);

    // Share the spare's state again, and drop the target's positions from `position` on. False as in restore_state.
    [[nodiscard]] bool take_back_state(int32_t slot, int32_t position);

    // Whole states of a slot, keys and values included, in host memory; the one of the companion is empty where there is
    // none. False: there is no memory for them.
    [[nodiscard]] bool save_whole(int32_t slot, std::vector<uint8_t> & of_target, std::vector<uint8_t> & of_draft) const;
    int64_t            whole_bytes(int32_t slot) const;

    // Put them into a slot that was cleared; no state of the companion: it stays empty. False: libllama refused one, or the
    // slot does not hold that many positions now; clear it.
    [[nodiscard]] bool restore_whole(int32_t slot, const std::vector<uint8_t> & of_target, const std::vector<uint8_t> & of_draft, int32_t n_target,
                                     int32_t n_draft);

    // Whether keys can be moved to other positions, in both.
    bool can_shift() const;

    // Forget the positions from n_keep to n_keep + n_discard, and move those behind them up. Only where can_shift().
    void shift(int32_t slot, int32_t n_keep, int32_t n_discard);

    // The first position that the target holds of a slot in all of its layers; -1: the slot is empty.
    int32_t first_position(int32_t slot) const { return llama_memory_seq_pos_min(target.memory(), slot); }

    // Whether the target and the companion, where there is one, hold positions up to exactly these.
    bool in_step(int32_t slot, int32_t n_target, int32_t n_draft) const;

    // What the memory of a context can do, found out by decoding two tokens and dropping one; it is empty after that.
    static bool can_drop_tail(Decoder & decoder);

    // Positions of a slot that the MTP context holds, those that left a window included; -1: it has no memory of its own.
    int32_t n_draft_held(int32_t slot) const;

    // Told what is removed from the MTP context; null: nobody watches. Borrowed.
    RowHistory * history = nullptr;

    mutable Faults faults;

private:
    void lose_if_due(int32_t slot) const;

    Decoder & target;
    Decoder * draft;
    int32_t   first_spare;
};

}  // namespace draftscope
