#include "probe.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace draftscope {

namespace {

constexpr int32_t n_fingerprints = 24;    // positions in front of the one gone back to that are told

}  // namespace

Probe::Probe(Contexts & contexts_, const ProbeSettings & settings_, ArrayRing & arrays_, int32_t n_slots)
    : contexts(contexts_), settings(settings_), arrays(arrays_), history(n_slots), reference(contexts_), slots(static_cast<size_t>(n_slots)) {
    if (contexts.driver != nullptr) {
        contexts.companion.history = &history;
        contexts.driver->decoder().on_hidden_row = [this](const Decoder::Row & row, std::span<const float> hidden) {
            if (is_on(row.seq)) {
                history.note_companion(row.seq, row.position, row.token, hidden);
            }
        };
    }
}

// ---- in the course of decoding

void Probe::note_decode() {
    if (contexts.driver == nullptr) {
        return;
    }
    const std::span<const Decoder::Row> rows = contexts.target.rows();
    for (size_t i = 0; i < rows.size(); i++) {
        const Decoder::Row & row = rows[i];
        if (row.seq < static_cast<int32_t>(slots.size()) && is_on(row.seq)) {
            const int64_t t_start = now_ns();
            history.note(row.seq, row.position, row.token, {contexts.target.hidden_row(static_cast<int32_t>(i)), static_cast<size_t>(contexts.target.n_embd())});
            at(row.seq).history_ns += now_ns() - t_start;
        }
    }
}

void Probe::note_drafts(std::span<Slot * const> drafting) {
    if (contexts.driver == nullptr) {
        return;
    }
    for (const Slot * slot : drafting) {
        OfSlot &                     of  = at(slot->id);
        const std::span<const float> row = contexts.driver->pending_row(slot->id);
        if (row.empty() || (!is_on(slot->id) && fault(slot->id) == RestoreFault::None)) {
            continue;
        }
        const int64_t t_start = now_ns(), position = row_position(slot->id);
        of.row_before.assign(row.begin(), row.end());
        if (is_on(slot->id)) {
            const int32_t found = history.find(slot->id, digest_of(row), static_cast<int32_t>(position));
            contexts.recorder.row(slot->id, fault(slot->id), t_start - std::exchange(of.history_ns, 0), static_cast<int32_t>(position), found,
                                  contexts.driver->n_waiting(slot->id));
        }
    }
}

void Probe::check_companions(std::span<Slot * const> drafted) {
    for (const Slot * slot : drafted) {
        for (Open & open : at(slot->id).open) {
            if (open.result.companion_n_wrong < 0) {
                compare_companion(open.result, *slot, false);
            }
        }
        settle(*slot);
    }
}

void Probe::note_state(const Slot & slot) {
    OfSlot & of = at(slot.id);
    of.state.clear();
    if (level(slot.id) == ProbeLevel::State && contexts.model.is_recurrent()) {
        const int64_t t_start = now_ns();
        contexts.recorder.operation(Phase::Probe);
        of.state    = contexts.companion.save_state(slot.id, Companion::Place::Host, std::move(of.state));
        of.position = slot.n_decoded;
        contexts.recorder.span(Phase::Probe, slot.id, t_start, slot.n_decoded, 0, 0);
    }
}

// A probe whose drafts were tried is complete when as many tokens have followed, any other with the next draft; one of a
// slot at rest that nobody tried waits for the slot's next task.
void Probe::settle(const Slot & slot) {
    std::deque<Open> & open = at(slot.id).open;
    while (!open.empty()) {
        ProbeResult & result = open.front().result;
        const bool    tried  = !open.front().trials.empty();
        if (tried) {
            const auto     n_draft    = static_cast<int32_t>(open.front().trials[0].tokens.size());
            const int32_t  n_followed = std::clamp(slot.n_tokens() - open.front().first, 0, n_draft);
            if (n_followed < n_draft && slot.is_active()) {
                return;
            }
            int32_t * const accepted[] = {&result.saved_accepted, &result.restored_accepted, &result.without_accepted};
            for (size_t i = 0; i < open.front().trials.size(); i++) {
                const std::vector<int32_t> & draft = open.front().trials[i].tokens;
                int32_t                      n     = 0;
                while (n < n_followed && draft[static_cast<size_t>(n)] == slot.tokens[static_cast<size_t>(open.front().first + n)]) {
                    n++;
                }
                *accepted[i] = draft.empty() ? -1 : n;
            }
            result.n_followed = n_followed;
        } else if (level(slot.id) >= ProbeLevel::Logits || result.companion_n_wrong < 0) {
            const bool may_come = slot.is_active() || result.kind != RestoreKind::Rejection;
            if (open.size() == 1 && may_come) {
                return;    // its drafts, or the MTP context, are still to be looked at
            }
        }
        tell(open.front());
        open.pop_front();
    }
}

void Probe::close(int32_t slot) {
    for (const Open & open : std::exchange(at(slot).open, {})) {
        tell(open);
    }
}

// ---- around a restore

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
    bool is_done = true;
    result.fault = static_cast<uint8_t>(inject(slot, restoring, is_done));
    if (!is_on(slot.id) || !is_done) {
        return is_done;
    }
    compare_pending_rows(open, restoring);
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

void Probe::compare_pending_rows(Open & open, const Restoring & restoring) {
    const int32_t slot = open.result.slot;
    if (contexts.driver == nullptr || restoring.saved.empty() || contexts.driver->pending_row(slot).size() != restoring.saved.size()) {
        return;
    }
    ProbeResult &                result   = open.result;
    const std::span<const float> restored = contexts.driver->pending_row(slot);
    const RowDifference          of_restored = compare_rows(restoring.saved, restored), of_without = compare_rows(restoring.saved, restoring.without);
    open.restored               = digest_of(restored);
    result.row_width            = static_cast<int32_t>(restored.size());
    result.row_position         = row_position(slot);
    result.restored_position    = history.find(slot, open.restored, result.row_position);
    result.without_position     = history.find(slot, digest_of(restoring.without), result.row_position);
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
    const std::vector<int64_t> recent = history.recent(slot, result.row_position, n_fingerprints);
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

// ---- recurrent state

void Probe::compare_recurrent(ProbeResult & result, const Slot & slot, std::span<const uint8_t> state) {
    if (!contexts.model.is_recurrent()) {
        result.state_status = StateStatus::NoRecurrentLayers;
        return;
    }
    const int64_t  t_start = now_ns();
    const OfSlot & of      = at(slot.id);
    contexts.recorder.operation(Phase::Probe);
    const std::vector<uint8_t> after = contexts.companion.save_state(slot.id, Companion::Place::Host);
    result.state_bytes               = static_cast<int64_t>(after.size());
    if (!state.empty()) {
        compare_saved(result, recurrent_part(state, after.size()), after);
    } else if (!of.state.empty() && of.position == slot.n_decoded) {
        compare_saved(result, of.state, after);
    } else {
        compare_anew(result, slot, after);
    }
    contexts.recorder.span(Phase::Probe, slot.id, t_start, slot.n_decoded, 0, 0);
}

void Probe::compare_saved(ProbeResult & result, std::span<const uint8_t> saved, std::span<const uint8_t> after) {
    if (const auto layers = compare_states(saved, after); saved.empty() || after.empty()) {
        result.state_status = StateStatus::NoReference;
    } else if (layers.has_value()) {
        fill(result, *layers);
    } else {
        result.state_status = StateStatus::UnknownLayout;
    }
}

// The slot went further than what was noted before the verification: the tokens between are decoded anew elsewhere. Kernels
// round by how many rows there are, so this is done in three ways, and what they differ by is known.
void Probe::compare_anew(ProbeResult & result, const Slot & slot, std::span<const uint8_t> after) {
    const OfSlot &       of = at(slot.id);
    std::vector<uint8_t> whole, of_draft;
    result.state_status = StateStatus::NoReference;
    if (of.state.empty() || after.empty() || of.position > slot.n_decoded || !contexts.companion.save_whole(slot.id, whole, of_draft)) {
        return;
    }
    const auto first  = static_cast<size_t>(of.position);
    const auto tokens = std::span(slot.tokens).subspan(first, static_cast<size_t>(slot.n_decoded) - first);
    std::vector<std::vector<uint8_t>>           anew;
    std::optional<std::vector<LayerDifference>> nearest;
    for (const ReferenceContext::How how : {ReferenceContext::How::Together, ReferenceContext::How::Twice, ReferenceContext::How::OneByOne}) {
        anew.push_back(reference.state_after(whole, of.state, of.position, tokens, how));
        if (anew.back().empty()) {
            return;
        }
        const auto layers = compare_states(anew.back(), after);
        if (!layers.has_value()) {
            result.state_status = StateStatus::UnknownLayout;
            return;
        }
        if (!nearest.has_value() || largest(*layers) < largest(*nearest)) {
            nearest = layers;
        }
        if (are_equal(*layers)) {
            fill(result, *layers);
            return;
        }
    }
    result.state_scatter = 0;
    for (size_t i = 0; i < anew.size(); i++) {
        for (size_t j = i + 1; j < anew.size(); j++) {
            result.state_scatter = std::max(result.state_scatter, largest(compare_states(anew[i], anew[j]).value_or(std::vector<LayerDifference>())));
        }
    }
    fill(result, *nearest);
    if (result.state_max_abs <= result.state_scatter) {
        result.state_status = StateStatus::Rounding;
    }
}

void Probe::fill(ProbeResult & result, const std::vector<LayerDifference> & layers) {
    std::vector<double> values;
    double              sum = 0;
    int32_t             n_parts = 0;
    result.n_layers           = static_cast<int32_t>(layers.size());
    result.n_layers_differing = 0;
    result.state_max_abs = result.state_rms = 0;
    for (size_t i = 0; i < layers.size(); i++) {
        result.n_layers_differing += layers[i].conv.is_equal && layers[i].delta.is_equal ? 0 : 1;
        for (const PartDifference * part : {&layers[i].conv, &layers[i].delta}) {
            if (!part->is_equal && (result.worst_layer < 0 || !(part->max_abs <= result.state_max_abs))) {
                result.worst_layer   = static_cast<int32_t>(i);
                result.worst_part    = part == &layers[i].delta ? 1 : 0;
                result.state_max_abs = part->max_abs;
            }
            sum += part->rms * part->rms;
            n_parts++;
            values.push_back(part->max_abs);
            values.push_back(part->rms);
        }
    }
    result.state_rms    = std::sqrt(sum / std::max(1, n_parts));
    result.state_status = are_equal(layers) ? StateStatus::Equal : StateStatus::Differs;
    arrays.push(result.t_start_ns, ArrayKind::Layers, values, {layers.size(), 2, 2});
}

}  // namespace draftscope
