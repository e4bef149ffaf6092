// The part of a probe around a restore: faults, pending rows and the MTP context.
#include "probe.h"

#include <algorithm>
#include <utility>

namespace draftscope {

namespace {

constexpr int32_t n_fingerprints = 24;    // positions in front of the one gone back to that are told

}  // namespace

Probe::Restoring Probe::begin(const Slot & slot, RestoreKind kind, std::span<const float> saved) {
    return begin(slot, kind, saved, contexts.driver == nullptr ? std::span<const float>() : contexts.driver->pending_row(slot.id));
}

Probe::Restoring Probe::begin(const Slot & slot, RestoreKind kind, std::span<const float> saved, std::span<const float> without) {
    Restoring restoring;
    restoring.is_watched = is_on(slot.id) || fault(slot.id) != RestoreFault::None;
    if (restoring.is_watched) {
        restoring.kind    = kind;
        restoring.t_start = now_ns();
        restoring.saved.assign(saved.begin(), saved.end());
        restoring.without.assign(without.begin(), without.end());
        if (restoring.without.empty()) {    // a slot that has decoded nothing has no row but zeros
            restoring.without.assign(saved.size(), 0.0f);
        }
        if (fault(slot.id) == RestoreFault::SkipLayer && contexts.model.is_recurrent()) {
            restoring.before = contexts.companion.save_state(slot.id, Companion::Place::Host);
        }
    }
    return restoring;
}

bool Probe::end(Slot & slot, Restoring restoring, Mechanism mechanism, int32_t n_replay, std::span<const uint8_t> state) {
    if (!restoring.is_watched) {
        return true;
    }
    Open          open;
    ProbeResult & result = open.result;
    const int64_t t_start = now_ns();
    result.round              = contexts.recorder.round;
    result.position           = slot.n_decoded;
    result.n_replay           = n_replay;
    result.slot               = static_cast<int16_t>(slot.id);
    result.level              = static_cast<uint8_t>(level(slot.id));
    result.kind               = restoring.kind;
    result.mechanism          = mechanism;
    result.t_start_ns         = last_id = std::max(restoring.t_start, last_id + 1);
    const bool has_companion  = contexts.driver != nullptr && contexts.companion.n_draft_held(slot.id) >= 0;
    result.companion_expected = has_companion ? contexts.driver->n_positions(slot.id) : -1;
    if (contexts.driver != nullptr && restoring.kind != RestoreKind::Rejection && !restoring.saved.empty()) {
        trust_waiting(slot.id);
    }
    bool is_done = true;
    result.fault = static_cast<uint8_t>(inject(slot, restoring, is_done));
    if (!is_on(slot.id) || !is_done) {
        return is_done;
    }
    compare_pending_rows(open, slot, restoring);
    result.companion_n = has_companion ? contexts.companion.n_draft_held(slot.id) : -1;
    if (level(slot.id) == ProbeLevel::State) {
        compare_recurrent(result, slot, state);
    }
    if (level(slot.id) >= ProbeLevel::Logits) {
        open.saved   = std::move(restoring.saved);
        open.without = std::move(restoring.without);
    }
    result.duration_ns = now_ns() - t_start;
    at(slot.id).open.push_back(std::move(open));
    if (!slot.is_active()) {
        compare_companion(at(slot.id).open.back().result, slot, true);
        tell(at(slot.id).open.back());
    }
    return true;
}

// Which fault there was: None where there was nothing to spoil.
RestoreFault Probe::inject(Slot & slot, const Restoring & restoring, bool & is_done) {
    const RestoreFault chosen  = fault(slot.id);
    const bool         has_row = contexts.driver != nullptr && !restoring.saved.empty();
    const OfSlot &     of      = at(slot.id);
    switch (chosen) {
        case RestoreFault::None: return chosen;
        case RestoreFault::SkipLayer: return skip_layer(slot, restoring, is_done) ? chosen : RestoreFault::None;
        case RestoreFault::OmitHook:
        case RestoreFault::ZeroRow:
        case RestoreFault::StaleRow: {
            const std::vector<float>   zeros(restoring.saved.size(), 0.0f);
            const std::vector<float> & row = chosen == RestoreFault::OmitHook ? restoring.without : chosen == RestoreFault::ZeroRow ? zeros : of.row_before;
            if (!has_row || row.size() != restoring.saved.size()) {
                return RestoreFault::None;
            }
            contexts.driver->set_pending_row(slot.id, row);
            return chosen;
        }
        case RestoreFault::CompanionBehind:
            if (!has_row || contexts.companion.n_draft_held(slot.id) < 0) {
                return RestoreFault::None;
            }
            if (restoring.kind == RestoreKind::Rejection) {
                contexts.driver->catch_up_with_own_rows(slot.id);
            } else {
                is_done = contexts.driver->leave_behind(slot.id, contexts.companion);
            }
            return chosen;
    }
    return RestoreFault::None;
}

bool Probe::skip_layer(const Slot & slot, const Restoring & restoring, bool & is_done) {
    if (restoring.before.empty()) {
        return false;
    }
    const std::vector<uint8_t> right = contexts.companion.save_state(slot.id, Companion::Place::Host);
    const std::vector<uint8_t> wrong = with_layer_of(restoring.before, right, settings.layer);
    if (wrong.empty()) {
        return false;
    }
    contexts.is_in_order = false;
    contexts.target.use_up_steps(slot.id);
    is_done = contexts.companion.restore_state(slot.id, wrong, Companion::Place::Host, slot.n_decoded);
    return true;
}

void Probe::compare_pending_rows(Open & open, const Slot & slot, const Restoring & restoring) {
    if (contexts.driver == nullptr || restoring.saved.empty() || contexts.driver->pending_row(slot.id).size() != restoring.saved.size()) {
        return;
    }
    ProbeResult &                result   = open.result;
    const std::span<const float> restored = contexts.driver->pending_row(slot.id);
    const RowDifference          of_restored = compare_rows(restoring.saved, restored), of_without = compare_rows(restoring.saved, restoring.without);
    open.restored               = digest_of(restored);
    result.row_width            = static_cast<int32_t>(restored.size());
    result.row_position         = row_position(slot.id);
    result.restored_position    = history.find(slot.id, open.restored, result.row_position, slot.tokens);
    result.without_position     = history.find(slot.id, digest_of(restoring.without), result.row_position, slot.tokens);
    result.restored_n_differing = of_restored.n_differing;
    result.restored_worst       = of_restored.worst;
    result.restored_max_abs     = of_restored.max_abs;
    result.restored_rms         = of_restored.rms;
    result.restored_cosine      = of_restored.cosine;
    result.without_n_differing  = of_without.n_differing;
    result.without_worst        = of_without.worst;
    result.without_max_abs      = of_without.max_abs;
    result.without_rms          = of_without.rms;
    result.without_cosine       = of_without.cosine;
    std::vector<float> rows(restoring.saved);
    rows.insert(rows.end(), restored.begin(), restored.end());
    rows.insert(rows.end(), restoring.without.begin(), restoring.without.end());
    arrays.push(result.t_start_ns, ArrayKind::Rows, rows, {3, restored.size()});
    const std::vector<int64_t> recent = history.recent(slot.id, result.row_position, n_fingerprints);
    arrays.push(result.t_start_ns, ArrayKind::Fingerprints, recent, {recent.size() / 2, 2});
}

void Probe::compare_companion(ProbeResult & result, const Slot & slot, bool is_all) {
    const int64_t t_start = now_ns();
    if (contexts.driver == nullptr || contexts.companion.n_draft_held(slot.id) < 0) {
        result.companion_n_wrong = 0;
        return;
    }
    const bool              is_prompt = result.kind != RestoreKind::Rejection;
    const RowHistory::Wrong wrong     = history.find_wrong(slot.id, slot.tokens, contexts.driver->n_positions(slot.id), is_all || is_prompt);
    result.companion_n_wrong     = wrong.n;
    result.companion_first_wrong = wrong.first;
    result.duration_ns += now_ns() - t_start;
}

}  // namespace draftscope
