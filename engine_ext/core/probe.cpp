#include "probe.h"

#include <algorithm>
#include <utility>

namespace draftscope {

Probe::Probe(Contexts & contexts_, const ProbeSettings & settings_, ArrayRing & arrays_, int32_t n_slots)
    : contexts(contexts_), settings(settings_), arrays(arrays_), history(n_slots), reference(contexts_), slots(static_cast<size_t>(n_slots)) {
    if (contexts.driver != nullptr) {
        contexts.companion.history = &history;
        contexts.driver->decoder().on_hidden_row = [this](const Decoder::Row & row, std::span<const float> hidden) {
            if (watch(row.seq)) {
                const int64_t t_start = now_ns();
                history.note_companion(row.seq, row.position, row.token, hidden);
                at(row.seq).history_ns += now_ns() - t_start;
            }
        };
    }
}

// A row is made: whether it is to be noted. Of what was made while the slot was not watched nothing is known.
bool Probe::watch(int32_t slot) {
    const bool was_on = std::exchange(at(slot).was_on, is_on(slot));
    if (is_on(slot) && !was_on) {
        history.forget(slot);
        trust_waiting(slot);
    }
    return is_on(slot);
}

void Probe::trust_waiting(int32_t slot) {
    history.trust(slot, contexts.driver->waiting_rows(slot), contexts.target.n_embd());
}

void Probe::note_decode() {
    if (contexts.driver == nullptr) {
        return;
    }
    const std::span<const Decoder::Row> rows = contexts.target.rows();
    for (size_t i = 0; i < rows.size(); i++) {
        const Decoder::Row & row = rows[i];
        if (row.seq < static_cast<int32_t>(slots.size()) && watch(row.seq)) {
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
        if (watch(slot->id)) {
            const uint64_t digest = digest_of(row);
            const int32_t  found  = history.find(slot->id, digest, static_cast<int32_t>(position), slot->tokens);
            if (found == unknown_position && (history.is_trusted(slot->id, digest) || !history.knows(slot->id, static_cast<int32_t>(position)))) {
                continue;    // made while nobody watched, or saved elsewhere: it cannot be named
            }
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

}  // namespace draftscope
