// What a restore changed, and whether it mattered: measured at every restore of a slot, at the level chosen for it. A probe
// changes nothing of the run. The faults, which do, are here as well: they go where the restore they spoil is measured.
//
// A rejected draft, a prompt checkpoint and a whole state end in begin() before and end() after. The drafts that the three
// rows lead to are tried before the next decode of the slot, and compared with the tokens that really followed.
#pragma once

#include "array_ring.h"
#include "differences.h"
#include "mtp_driver.h"
#include "recurrent_state.h"
#include "reference_context.h"
#include "row_history.h"
#include "scheduler.h"

#include <deque>
#include <optional>
#include <span>
#include <vector>

namespace draftscope {

class Probe {
public:
    // All borrowed. settings may change between two steps.
    Probe(Contexts & contexts_, const ProbeSettings & settings_, ArrayRing & arrays_, int32_t n_slots);

    ProbeLevel level(int32_t slot) const { return settings.levels[static_cast<size_t>(slot)]; }

    // ---- in the course of decoding

    // The target has decoded: the rows of watched slots get their names.
    void note_decode();
    // Before a draft: from which row it starts, on record.
    void note_drafts(std::span<Slot * const> slots);
    // After it: the MTP context has caught up.
    void check_companions(std::span<Slot * const> slots);
    // Before the target verifies a draft: the recurrent state to come back to.
    void note_state(const Slot & slot);
    // Before the slots' next decodes: the next draft from each of the three rows.
    void try_drafts(std::span<Slot * const> slots);
    // What followed, as far as it is known by now.
    void settle(const Slot & slot);
    // Positions have moved: what is open is told as it is.
    void close(int32_t slot);

    // ---- around a restore

    struct Restoring {
        bool                 is_watched = false;
        RestoreKind          kind       = RestoreKind::Rejection;
        int64_t              t_start    = 0;
        std::vector<float>   saved, without;    // pending rows; empty: none
        std::vector<uint8_t> before;            // recurrent state before the restore, for SkipLayer
    };
    // saved: the pending row that is right for the position gone back to, borrowed; empty: nothing is drafted, or the row
    // comes with the next decode.
    Restoring begin(const Slot & slot, RestoreKind kind, std::span<const float> saved);
    // The same, where without the hook another row than the present one would be there.
    Restoring begin(const Slot & slot, RestoreKind kind, std::span<const float> saved, std::span<const float> without);
    // The slot has gone back. state: the recurrent state saved, PARTIAL_ONLY; empty: that noted before the verification.
    // False: a fault could not be injected; the slot's memory is of no use.
    [[nodiscard]] bool end(Slot & slot, Restoring restoring, Mechanism mechanism, int32_t n_replay, std::span<const uint8_t> state);

private:
    // A probe that is not complete yet.
    struct Open {
        ProbeResult                   result;
        std::vector<float>            saved, without;    // until the drafts are tried
        uint64_t                      restored = 0;    // digest of the row in use
        std::vector<MtpDriver::Trial> trials;
        int32_t                       first = 0;    // position of the first drafted token
    };
    struct OfSlot {
        std::deque<Open>     open;
        std::vector<float>   row_before;    // that the last draft started from
        std::vector<uint8_t> state;         // noted before the verification
        int32_t              position   = 0;    // of it
        bool                 was_on     = false;    // when its last row was made
        int64_t              history_ns = 0;    // time that digests took since the last record of it
    };
    OfSlot &     at(int32_t slot) { return slots[static_cast<size_t>(slot)]; }
    RestoreFault fault(int32_t slot) const { return settings.faults[static_cast<size_t>(slot)]; }
    bool         is_on(int32_t slot) const { return level(slot) != ProbeLevel::Off; }
    bool         watch(int32_t slot);
    void         trust_waiting(int32_t slot);
    int32_t      row_position(int32_t slot) const { return contexts.driver->n_known(slot) - 1; }

    RestoreFault inject(Slot & slot, const Restoring & restoring, bool & is_done);
    bool         skip_layer(const Slot & slot, const Restoring & restoring, bool & is_done);
    void         compare_pending_rows(Open & open, const Slot & slot, const Restoring & restoring);
    void         compare_companion(ProbeResult & result, const Slot & slot, bool is_all);
    void         compare_recurrent(ProbeResult & result, const Slot & slot, std::span<const uint8_t> state);
    void         compare_saved(ProbeResult & result, std::span<const uint8_t> saved, std::span<const uint8_t> after);
    void         compare_anew(ProbeResult & result, const Slot & slot, std::span<const uint8_t> after);
    void         fill(ProbeResult & result, const std::vector<LayerDifference> & layers, std::optional<double> scatter = {});
    bool         is_due(const Open & open, const Slot & slot) const;
    void         try_rows(Open & open, Slot & slot);
    void         compare_drafts(Open & open);
    void         push_likeliest(const Open & open, const std::vector<Distribution> & drafts);
    void         tell(const Open & open) { arrays.push(open.result); }

    Contexts &            contexts;
    const ProbeSettings & settings;
    ArrayRing &           arrays;
    RowHistory            history;
    ReferenceContext      reference;
    std::vector<OfSlot>   slots;
    int64_t               last_id = 0;
};

}  // namespace draftscope
