#include "round.h"

#include "probability.h"
#include "probe.h"
#include "slot_memory.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace draftscope {

void Round::run(std::span<Slot * const> generating) {
    slots.assign(generating.begin(), generating.end());
    contexts.recorder.round = counts.rounds++ - n_earlier;
    t_start_ns              = now_ns();
    n_yielded               = 0;
    make_room();
    drop_cancelled();
    contexts.probe->try_drafts(slots);
    replay_alone();
    draft();
    checkpoint();
    for (const std::span<Slot * const> part : parts()) {
        const bool is_lost = part.front()->state() != SlotState::Generating;    // by a decode before it that did not succeed
        if (!is_lost && verify(part)) {
            for (Entry & entry : entries) {
                accept(entry);
            }
        }
    }
    entries.clear();
    contexts.costs.learn_yield(n_yielded, now_ns() - t_start_ns);
    contexts.recorder.round = no_round;
}

void Round::drop_cancelled() {
    std::erase_if(slots, [this](Slot * slot) {
        const bool cancelled = is_cancelled && is_cancelled(slot->id);
        if (cancelled) {
            contexts.memory->rest(*slot, StopReason::Cancelled);
        }
        return cancelled || slot->state() != SlotState::Generating;
    });
}

// Full slots forget the older half of what is behind their first tokens, where the context may be shifted. Those that may
// not have ended.
void Round::make_room() {
    constexpr int32_t n_keep = 4;    // without the very first tokens attention loses its footing
    for (Slot * slot : slots) {
        if (slot->n_tokens() >= contexts.settings.n_ctx) {
            contexts.memory->shift(*slot, n_keep, (contexts.settings.n_ctx - n_keep) / 2);
        }
        contexts.memory->save_if_due(*slot);
    }
}

void Round::draft() {
    drop_cancelled();
    if (contexts.driver == nullptr || slots.empty()) {
        return;
    }
    contexts.probe->note_drafts(slots);
    const int64_t t_start = now_ns();
    const DecodeStatus status =
        contexts.driver->draft_tokens(slots, contexts.settings.n_draft_max, contexts.settings.catch_up_alone, contexts.companion);
    if (status != DecodeStatus::Done) {
        contexts.memory->end_all(slots, status, SlotMemory::Decode::Draft, "the draft");
        slots.clear();
        return;
    }
    for (const Slot * slot : slots) {
        contexts.recorder.span(Phase::Draft, slot->id, t_start, slot->n_tokens(), static_cast<int>(slot->draft.size()), 0);
    }
    contexts.probe->check_companions(slots);
    drop_cancelled();
    cut_drafts();
}

// Drafted tokens that no slot has room for any more are not verified. All slots are cut alike, so that they still bring
// equal counts.
void Round::cut_drafts() {
    int32_t most = 0;
    for (const Slot * slot : slots) {
        most = std::max(most, slot->n_left() - 1);
    }
    for (Slot * slot : slots) {
        if (static_cast<int32_t>(slot->draft.size()) > most) {
            slot->draft.resize(static_cast<size_t>(most));
            slot->draft_probability.resize(static_cast<size_t>(most));
        }
    }
}

// Slots whose replay is better decoded alone: together with the sampled token behind it, so that the decode yields a token
// as one without a draft does. The draft then starts from that token.
void Round::replay_alone() {
    drop_cancelled();
    const std::vector<Slot *> behind = choose_behind();
    if (behind.empty()) {
        return;
    }
    contexts.target.clear();
    std::vector<int32_t> last;    // batch index of each slot's sampled token
    for (const Slot * slot : behind) {
        last.push_back(add_pending(*slot));
    }
    const int64_t      t_start = now_ns();
    const DecodeStatus status  = decode_target(contexts, counts, Phase::Replay);
    if (status != DecodeStatus::Done) {
        contexts.memory->end_all(behind, status, SlotMemory::Decode::Target, "the replay");
        return;
    }
    for (size_t i = 0; i < behind.size(); i++) {
        Slot &        slot = *behind[i];
        const int32_t n    = slot.n_pending();
        contexts.recorder.span(Phase::Replay, slot.id, t_start, slot.n_decoded, n, n - 1);
        slot.n_decoded += n;
        if (contexts.driver != nullptr) {
            contexts.driver->take_rows(slot.id, contexts.target, last[i], 1);
        }
        if (take_sampled(slot, slot.sample(contexts.target.context(), last[i]), last[i])) {
            contexts.memory->release(slot);
        }
    }
    // After a rejection the slot could not be saved at the round's start: the MTP context was ahead of the target.
    for (Slot * slot : behind) {
        if (slot->is_active()) {
            contexts.memory->save_if_due(*slot);
        }
    }
}

std::vector<Slot *> Round::choose_behind() const {
    std::vector<Waiting> waiting;
    for (const Slot * slot : slots) {
        waiting.push_back({slot->id, slot->n_pending() - 1, 1 + contexts.settings.n_draft_max});
    }
    std::vector<Slot *> behind;
    if (std::any_of(waiting.begin(), waiting.end(), [](const Waiting & slot) { return slot.n_replay > 0; })) {
        const int32_t limit = choose_riding_limit(waiting, contexts.costs, contexts.settings.replay, !contexts.is_unified);
        std::copy_if(slots.begin(), slots.end(), std::back_inserter(behind), [this, limit](const Slot * slot) {
            const int32_t n_replay = slot->n_pending() - 1;    // a slot that is to be saved must be where its tokens are
            return n_replay > limit || (n_replay > 0 && contexts.memory->until_due(*slot) == 0);
        });
    }
    return behind;
}

// The slot's tokens that are not decoded yet; the last is an output. Returns its batch index.
int32_t Round::add_pending(const Slot & slot) {
    int32_t index = -1;
    for (int32_t i = 0; i < slot.n_pending(); i++) {
        index = contexts.target.add(slot.id, slot.tokens[static_cast<size_t>(slot.n_decoded + i)], slot.n_decoded + i, i + 1 == slot.n_pending());
    }
    return index;
}

// A token of the target's own choice from the output at `index`. True when the task ends with it.
bool Round::take_sampled(Slot & slot, int32_t token, int32_t index) {
    if (token == no_token) {
        return true;
    }
    const float p = probability_of(contexts.target.logits(index), contexts.model.n_vocab(), token);
    contexts.recorder.token(slot.id, Origin::Sampled, slot.n_tokens(), token, 0, -1, static_cast<double>(p));
    n_yielded++;
    return slot.emit(contexts.model, token, contexts.ends_at);
}

void Round::checkpoint() {
    for (Slot * slot : slots) {
        if (slot->draft.empty() || !contexts.checkpoint.saves(slot->id) || contexts.checkpoint.holds(*slot)) {
            continue;
        }
        contexts.recorder.operation(Phase::Save);
        const int64_t t_start  = now_ns();
        const bool    is_saved = contexts.checkpoint.save(*slot);
        contexts.costs.learn_save(now_ns() - t_start);
        if (is_saved) {
            continue;
        }
        // Nothing to go back to: this round goes without a draft, which needs no way back.
        contexts.recorder.fallback(slot->id, FallbackReason::NoMemory, slot->n_decoded, contexts.checkpoint.mechanism_of(slot->id), Mechanism::None);
        slot->draft.clear();
        slot->draft_probability.clear();
    }
    drop_cancelled();
}

// The slots of each decode: all together wherever that is right. libllama cuts a recurrent decode where slot numbers are
// not consecutive or slots bring different numbers of tokens, and puts the states of each piece side by side. That may move
// a state of an earlier piece, without the steps back that its draft has just left: a rollback would then read those of
// another slot. So unless all states lie in order, each piece is a decode of its own, and its slots go back before the next
// one moves them. It takes as many graphs.
std::vector<std::span<Slot * const>> Round::parts() {
    const std::span<Slot * const>        all(slots);
    std::vector<std::span<Slot * const>> pieces;
    const auto n_rows = [&all](size_t i) { return static_cast<size_t>(all[i]->n_pending()) + all[i]->draft.size(); };
    for (size_t first = 0, i = 1; i <= all.size(); i++) {
        if (i == all.size() || all[i]->id != all[i - 1]->id + 1 || n_rows(i) != n_rows(i - 1)) {
            pieces.push_back(all.subspan(first, i - first));
            first = i;
        }
    }
    contexts.is_in_order = contexts.is_in_order || pieces.size() == 1;
    const bool together  = contexts.is_in_order || contexts.checkpoint.mechanism() != Mechanism::Rollback;
    return together && !all.empty() ? std::vector{all} : pieces;
}

bool Round::verify(std::span<Slot * const> part) {
    entries.clear();
    contexts.target.clear();
    for (Slot * slot : part) {
        if (!slot->draft.empty()) {
            contexts.probe->note_state(*slot);
        }
        const Entry entry{slot, add_pending(*slot), slot->n_pending() - 1, static_cast<int32_t>(slot->draft.size()), 0};
        for (size_t i = 0; i < slot->draft.size(); i++) {
            contexts.target.add(slot->id, slot->draft[i], slot->n_tokens() + static_cast<int32_t>(i), true);
        }
        entries.push_back(entry);
    }
    const int64_t      t_start = now_ns();
    const DecodeStatus status  = decode_target(contexts, counts, Phase::Verify);
    if (status != DecodeStatus::Done) {
        contexts.memory->end_all(part, status, SlotMemory::Decode::Target, "the verification");
        return false;
    }
    const bool has_ride = std::any_of(entries.begin(), entries.end(), [](const Entry & entry) { return entry.n_replay > 0; });
    counts.rides += has_ride ? 1 : 0;
    for (const Entry & entry : entries) {
        const int32_t n = entry.n_replay + 1 + static_cast<int32_t>(entry.slot->draft.size());
        contexts.recorder.span(Phase::Verify, entry.slot->id, t_start, entry.slot->n_decoded, n, entry.n_replay);
    }
    contexts.recorder.operation(Phase::Accept);
    return true;
}

void Round::accept(Entry & entry) {
    Slot & slot = *entry.slot;
    if (is_cancelled && is_cancelled(slot.id)) {
        go_back(entry, slot.n_tokens());
        contexts.memory->rest(slot, StopReason::Cancelled);
        return;
    }
    const int64_t t_start  = now_ns();
    const int32_t n_before = slot.n_tokens();
    const auto    n_draft  = static_cast<int32_t>(slot.draft.size());
    // The slot's state may end inside; the draft is kept apart, since an ended slot drops it.
    const std::vector<int32_t> draft         = slot.draft;
    const std::vector<float>   probabilities = slot.draft_probability;
    bool                       ended         = false;
    for (int32_t i = 0; !ended; i++) {
        const int32_t chosen = slot.sample(contexts.target.context(), entry.first + i);
        const bool    match  = i < n_draft && chosen == draft[static_cast<size_t>(i)];
        if (match) {
            contexts.recorder.token(slot.id, Origin::Accepted, slot.n_tokens(), chosen, i + 1, -1, static_cast<double>(probabilities[static_cast<size_t>(i)]));
            entry.n_accepted++;
            n_yielded++;
            ended = slot.emit(contexts.model, chosen, contexts.ends_at) || slot.n_tokens() >= contexts.settings.n_ctx;
        } else {
            for (int32_t j = i; j < n_draft; j++) {
                contexts.recorder.token(slot.id, Origin::Rejected, n_before + j, draft[static_cast<size_t>(j)], j + 1, j == i ? chosen : -1,
                                        static_cast<double>(probabilities[static_cast<size_t>(j)]));
            }
            take_sampled(slot, chosen, entry.first + i);
            ended = true;
        }
    }
    slot.count_round(n_draft, entry.n_accepted);
    if (n_draft > 0) {
        contexts.costs.learn_round(entry.n_accepted < n_draft);
    }
    contexts.recorder.span(Phase::Accept, slot.id, t_start, n_before, n_draft, entry.n_accepted);
    const int32_t n_accepted = entry.n_accepted;
    if (slot.is_active() && slot.n_tokens() == n_before + n_accepted) {
        entry.n_accepted--;    // the slot is full: its newest token waits for the decode after the shift, as a sampled one would
    }
    go_back(entry, n_before);
    if (!slot.is_active()) {
        contexts.memory->release(slot);
    }
    contexts.recorder.round_done(slot.id, contexts.checkpoint.mechanism_of(slot.id), t_start_ns, slot.n_tokens(), n_draft, n_accepted, slot.tokens_per_second());
}

void Round::go_back(Entry & entry, int32_t n_before) {
    Slot &        slot   = *entry.slot;
    const int32_t n_keep = n_before + entry.n_accepted;    // positions of the target that are true
    const int32_t n_all  = n_before + entry.n_draft;
    Probe::Restoring restoring;
    if (contexts.driver != nullptr && n_keep != n_all) {    // what a driver that takes no row now would go on from is the last one decoded
        const auto row = [&](int32_t i) { return std::span(contexts.target.hidden_row(entry.first + i), static_cast<size_t>(contexts.target.n_embd())); };
        restoring      = contexts.probe->begin(slot, RestoreKind::Rejection, row(entry.n_accepted), row(entry.n_draft));
    }
    if (contexts.driver != nullptr) {
        contexts.driver->take_rows(slot.id, contexts.target, entry.first, entry.n_accepted + 1);
    }
    if (n_keep == n_all) {
        slot.n_decoded = n_keep;
    } else if (const FallbackReason reason = contexts.checkpoint.go_back(slot, n_keep); reason != FallbackReason::None) {
        begin_anew(slot, reason);
        return;
    } else if (!contexts.probe->end(slot, std::move(restoring), contexts.checkpoint.mechanism_of(slot.id), n_keep - slot.n_decoded, {})) {
        begin_anew(slot, FallbackReason::RestoreFailed);
        return;
    }
    check(slot);
}

void Round::check(Slot & slot) {
    const int32_t n_draft = contexts.driver == nullptr ? 0 : contexts.driver->n_held(slot.id);
    if (!contexts.companion.in_step(slot.id, slot.n_decoded, n_draft)) {
        begin_anew(slot, FallbackReason::PositionMismatch);
    }
}

void Round::begin_anew(Slot & slot, FallbackReason reason) {
    const Mechanism asked = contexts.checkpoint.mechanism(), next = contexts.checkpoint.mechanism_of(slot.id);
    contexts.recorder.fallback(slot.id, reason, slot.n_tokens(), asked, next == asked ? Mechanism::None : next);
    contexts.memory->forget(slot);
    if (slot.state() == SlotState::Generating) {
        slot.prefill_again();
    }
}

}  // namespace draftscope
