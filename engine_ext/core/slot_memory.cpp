#include "slot_memory.h"

#include "error.h"
#include "probe.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace draftscope {

namespace {

// Tokens: fewer than this are decoded again sooner than a state is moved.
constexpr int32_t least_worth = 32;

std::string name_of(const Slot & slot) {
    return "slot " + std::to_string(slot.id);
}

}  // namespace

SlotMemory::SlotMemory(Contexts & contexts_, const std::vector<std::unique_ptr<Slot>> & slots_)
    : contexts(contexts_),
      slots(slots_),
      checkpoints(static_cast<int32_t>(slots_.size()), contexts_.settings.prompt_checkpoints_bytes, contexts_.settings.prompt_checkpoint_spacing),
      cache(contexts_.settings.prompt_cache_bytes) {}

// ---- the end of a task

void SlotMemory::forget(Slot & slot) {
    contexts.companion.clear(slot.id);
    contexts.checkpoint.discard(slot.id);
    checkpoints.forget(slot.id);
    if (contexts.driver != nullptr) {
        contexts.driver->begin(slot.id);
    }
    slot.n_decoded = 0;
}

void SlotMemory::rest(Slot & slot, StopReason reason) {
    slot.finish(reason);
    contexts.checkpoint.discard(slot.id);
    const Operation operation = reason == StopReason::Cancelled ? Operation::Cancel : Operation::Release;
    contexts.recorder.slot_operation(slot.id, operation, now_ns(), slot.n_tokens(), slot.n_decoded, Reuse::Kept, 0);
}

void SlotMemory::release(const Slot & slot) {
    contexts.checkpoint.discard(slot.id);
    contexts.recorder.slot_operation(slot.id, Operation::Release, now_ns(), slot.n_tokens(), slot.n_decoded, Reuse::Kept, 0);
}

void SlotMemory::lose(Slot & slot, StopReason reason, const std::string & error) {
    forget(slot);
    if (slot.is_active()) {
        slot.finish(reason, error);
    }
    const Operation operation = reason == StopReason::Cancelled ? Operation::Cancel : Operation::Release;
    contexts.recorder.slot_operation(slot.id, operation, now_ns(), slot.n_tokens(), 0, Reuse::Refused, 0);
}

void SlotMemory::end_all(std::span<Slot * const> ended, DecodeStatus status, Decode decode, const char * what) {
    for (Slot * slot : ended) {
        if (status != DecodeStatus::Aborted) {
            lose(*slot, StopReason::Failed, std::string("llama.cpp could not decode ") + what + " of " + name_of(*slot) + ".");
        } else if (recover(*slot, decode) && slot->is_active()) {
            rest(*slot, StopReason::Cancelled);
        } else if (slot->is_active()) {
            lose(*slot, StopReason::Cancelled);
        }
    }
    if (decode == Decode::Target && contexts.model.is_recurrent()) {
        for (const auto & slot : slots) {
            if (std::find(ended.begin(), ended.end(), slot.get()) == ended.end()) {
                distrust(*slot);
            }
        }
    }
}

// libllama puts the recurrent states of a decode side by side and moves those of other slots out of the way: their places
// change at once, but the graph copies them, and one that was not computed to its end has not copied all. What a slot holds
// is worth no more than its newest prompt checkpoint then.
void SlotMemory::distrust(Slot & slot) {
    if (slot.n_decoded == 0) {
        return;
    }
    contexts.checkpoint.discard(slot.id);
    const PromptCheckpoint * found = checkpoints.newest(slot.id, slot.n_decoded - (slot.is_active() ? 1 : 0));
    if (found == nullptr || !restore(slot, *found)) {
        const int64_t t_start = now_ns();
        forget(slot);
        contexts.recorder.slot_operation(slot.id, Operation::Clear, t_start, slot.n_tokens(), 0, Reuse::Refused, 0);
    }
    if (slot.state() == SlotState::Generating) {
        contexts.recorder.fallback(slot.id, FallbackReason::RestoreFailed, slot.n_tokens(), contexts.checkpoint.mechanism(), Mechanism::None);
        slot.prefill_again();
    }
}

// What an aborted decode leaves in a memory is not known, but for what was there before it.
bool SlotMemory::recover(Slot & slot, Decode decode) {
    if (contexts.driver != nullptr && !contexts.companion.drop_drafted(slot.id, contexts.driver->n_positions(slot.id))) {
        return false;
    }
    if (decode == Decode::Draft) {
        return true;
    }
    contexts.is_in_order = false;
    contexts.target.use_up_steps(slot.id);
    if (n_least(contexts.companion.first_position(slot.id)) <= slot.n_decoded) {
        return contexts.companion.drop_target_tail(slot.id, slot.n_decoded);
    }
    const bool is_apart = contexts.checkpoint.mechanism_of(slot.id) != Mechanism::Cow;    // a spare lies among the states that were moved
    if (is_apart && contexts.checkpoint.saves(slot.id) && contexts.checkpoint.holds(slot)) {
        return contexts.checkpoint.go_back(slot, slot.n_decoded) == FallbackReason::None;
    }
    const PromptCheckpoint * found = checkpoints.newest(slot.id, slot.n_decoded);
    return found != nullptr && restore(slot, *found);
}

// ---- the beginning of a task

Past SlotMemory::past_of(const Slot & slot) const {
    std::optional<int32_t> n_draft;
    if (contexts.driver != nullptr) {
        n_draft = contexts.driver->n_positions(slot.id);
    }
    return {slot.tokens, slot.n_decoded, n_draft, n_known(slot), checkpoints.of(slot.id), n_least(contexts.companion.first_position(slot.id))};
}

// Positions that must stay when a slot drops its tail, whose memory begins at position `first`: windows that have forgotten
// what lies before it must be whole, and a recurrent state cannot go back at all.
int32_t SlotMemory::n_least(int32_t first) const {
    if (contexts.model.is_recurrent()) {
        return std::numeric_limits<int32_t>::max();
    }
    return first > 0 ? first + llama_model_n_swa(contexts.model.get()) : 0;
}

int32_t SlotMemory::n_known(const Slot & slot) const {
    return contexts.driver == nullptr ? slot.n_decoded : contexts.driver->n_known(slot.id);
}

SlotMemory::Taken SlotMemory::take_up(Slot & slot, const std::vector<int32_t> & prompt, bool may_reuse) {
    const int64_t t_start  = now_ns();
    int32_t       n_common = -1;
    Taken         taken;
    if (!may_reuse) {
        taken.reuse = slot.n_decoded > 0 ? Reuse::TurnedOff : Reuse::None;
        forget(slot);
    } else {
        ReusePlan plan  = plan_reuse(past_of(slot), prompt);
        Reuse     found = Reuse::None;
        swap_in(slot, prompt, plan, found);
        n_common     = std::min(plan.n_common, slot.n_decoded);
        taken.reuse  = !carry_out(slot, plan) || found == Reuse::Refused ? Reuse::Refused : found == Reuse::Cached && plan.n_keep > 0 ? found : plan.reuse;
        taken.n_kept = slot.n_decoded;
        if (const PromptCheckpoint * end = checkpoints.newest(slot.id, taken.n_kept); taken.n_kept == static_cast<int32_t>(prompt.size()) && end != nullptr) {
            taken.logits = end->logits;
        }
    }
    contexts.recorder.slot_operation(slot.id, Operation::Submit, t_start, static_cast<int32_t>(prompt.size()), taken.n_kept, taken.reuse, 0,
                                     n_common);
    return taken;
}

// Do as planned. False: it was refused; the slot is empty then, and the plan keeps nothing.
bool SlotMemory::carry_out(Slot & slot, ReusePlan & plan, RestoreKind kind) {
    contexts.is_in_order = false;
    contexts.checkpoint.discard(slot.id);
    bool done = true;
    switch (plan.reuse) {
        case Reuse::Kept:
            done = contexts.driver == nullptr || contexts.driver->truncate(slot.id, plan.n_common, contexts.companion);
            if (done && needs_checkpoints() && checkpoints.is_worth_it(slot.id, slot.n_decoded)) {
                save(slot);
            }
            break;
        case Reuse::TailDropped:
            done = contexts.companion.drop_target_tail(slot.id, plan.n_keep) &&
                   (contexts.driver == nullptr || contexts.driver->truncate(slot.id, plan.n_common, contexts.companion));
            slot.n_decoded = plan.n_keep;
            break;
        case Reuse::Restored:
        case Reuse::NoCheckpoint:
            if (!step_back(slot, plan)) {
                done = plan.checkpoint != nullptr && restore(slot, *plan.checkpoint, kind);
            }
            break;
        default: forget(slot); break;
    }
    if (!done) {
        forget(slot);
        plan.n_keep = 0;
        return plan.reuse == Reuse::NoCheckpoint;
    }
    checkpoints.drop_behind(slot.id, plan.n_common);
    return true;
}

// A native rollback, where the wanted position lies within the last decode.
bool SlotMemory::step_back(Slot & slot, ReusePlan & plan) {
    if (contexts.checkpoint.mechanism_of(slot.id) != Mechanism::Rollback || plan.n_best <= (plan.checkpoint == nullptr ? 0 : plan.checkpoint->position) ||
        slot.n_decoded - plan.n_best > contexts.n_steps_back || !contexts.companion.drop_target_tail(slot.id, plan.n_best)) {
        return false;
    }
    slot.n_decoded = plan.n_keep = plan.n_best;
    plan.reuse                   = Reuse::TailDropped;
    return contexts.driver == nullptr || contexts.driver->truncate(slot.id, plan.n_common, contexts.companion);
}

// The checkpoint is one of the slot's. False: the slot's memory is of no use any more.
bool SlotMemory::restore(Slot & slot, const PromptCheckpoint & checkpoint, RestoreKind kind) {
    const auto saved     = contexts.driver == nullptr ? std::span<const float>() : checkpoint.rows.pending_row(contexts.target.n_embd());
    auto       restoring = contexts.probe->begin(slot, kind, saved);
    const int64_t t_start = now_ns();
    contexts.is_in_order  = false;
    contexts.target.use_up_steps(slot.id);
    if (!contexts.companion.restore_state(slot.id, checkpoint.state, Companion::Place::Host, checkpoint.position)) {
        return false;
    }
    if (contexts.driver != nullptr) {
        if (!contexts.companion.drop_drafted(slot.id, checkpoint.rows.n_positions)) {
            return false;
        }
        take_rows(slot, checkpoint.rows);
    }
    slot.n_decoded = checkpoint.position;
    contexts.recorder.n_prompt_restores++;
    contexts.recorder.slot_operation(slot.id, Operation::PromptRestore, t_start, checkpoint.position, checkpoint.position, Reuse::Restored,
                                     checkpoint.size_bytes());
    return contexts.probe->end(slot, std::move(restoring), Mechanism::Host, 0, checkpoint.state);
}

void SlotMemory::take_rows(const Slot & slot, MtpState rows) {
    if (!contexts.settings.use_hooks) {
        std::fill(rows.rows.begin(), rows.rows.end(), 0.0f);
    }
    contexts.driver->set_state(slot.id, std::move(rows));
}

// Where the prompt cache has clearly more of the prompt than the slot: the two change places.
void SlotMemory::swap_in(Slot & slot, const std::vector<int32_t> & prompt, ReusePlan & plan, Reuse & how) {
    auto    best   = cache.all().end();
    int32_t n_best = plan.n_keep + least_worth - 1;
    for (auto image = cache.all().begin(); image != cache.all().end(); ++image) {
        std::optional<int32_t> n_draft;
        if (contexts.driver != nullptr) {
            n_draft = image->rows.n_positions;
        }
        const int32_t n_ready = contexts.driver == nullptr ? image->n_decoded : image->rows.n_known(contexts.target.n_embd());
        const int32_t   n_swa    = llama_model_n_swa(contexts.model.get());
        const int32_t   first    = n_swa == 0 ? 0 : std::max(0, image->n_decoded - n_swa);    // libllama saves no more of windows
        const ReusePlan of_image = plan_reuse({image->tokens, image->n_decoded, n_draft, n_ready, image->checkpoints, n_least(first)}, prompt);
        if (of_image.n_keep > n_best) {
            n_best = of_image.n_keep;
            best   = image;
        }
    }
    // What the slot would lose is kept for later, as long as it is more than what stays.
    const bool loses = slot.n_decoded - plan.n_keep >= least_worth && 2 * plan.n_keep < slot.n_decoded;
    if (best == cache.all().end()) {
        if (loses) {
            store(slot);
        }
        return;
    }
    SlotImage found = cache.take(best);
    if (loses || slot.n_decoded >= least_worth) {
        store(slot);
    }
    const bool is_taken = place(slot, std::move(found), Operation::CacheTake);
    contexts.recorder.n_cache_hits += is_taken ? 1 : 0;
    how  = is_taken ? Reuse::Cached : Reuse::Refused;
    plan = plan_reuse(past_of(slot), prompt);
}

void SlotMemory::store(const Slot & slot) {
    if (!cache.fits(contexts.companion.whole_bytes(slot.id))) {
        return;
    }
    try {
        SlotImage stored   = image(slot, Operation::CacheStore);
        stored.take_checkpoints(checkpoints.of(slot.id));
        if (!cache.fits(stored.size_bytes())) {
            stored.checkpoints.clear();
        }
        if (cache.fits(stored.size_bytes())) {
            cache.store(std::move(stored));
        }
    } catch (const EngineError &) {
        return;    // no memory for it: the prompt will be decoded again
    }
}

// ---- prompt checkpoints

int32_t SlotMemory::until_due(const Slot & slot) const {
    if (!needs_checkpoints()) {
        return contexts.settings.n_ctx;
    }
    return checkpoints.until_due(slot.id, slot.n_decoded);
}

void SlotMemory::save_if_due(Slot & slot) {
    if (needs_checkpoints() && until_due(slot) == 0) {
        save(slot);
    }
}

void SlotMemory::save_prompt(Slot & slot, const float * logits) {
    if (needs_checkpoints() && checkpoints.is_worth_it(slot.id, slot.n_decoded)) {
        save(slot, {logits, static_cast<size_t>(contexts.model.n_vocab())});
    }
}

void SlotMemory::save(Slot & slot, std::span<const float> logits) {
    const int64_t    t_start = now_ns();
    PromptCheckpoint checkpoint;
    checkpoint.position = slot.n_decoded;
    checkpoint.logits.assign(logits.begin(), logits.end());
    if (contexts.driver != nullptr) {
        auto rows = contexts.driver->state_at(slot.id, slot.n_decoded);
        if (!rows.has_value()) {
            return;    // the MTP context is ahead of the target, which replays; the next decode mends that
        }
        checkpoint.rows = std::move(*rows);
    }
    checkpoints.tried(slot.id, slot.n_decoded);
    if (!checkpoints.fits(contexts.companion.state_bytes(slot.id))) {
        return;
    }
    checkpoint.state = contexts.companion.save_state(slot.id, Companion::Place::Host);
    if (checkpoint.state.empty()) {
        return;
    }
    const int64_t size_bytes = checkpoint.size_bytes();
    const auto    gone       = checkpoints.add(slot.id, std::move(checkpoint));
    contexts.recorder.n_prompt_saves++;
    contexts.recorder.slot_operation(slot.id, Operation::PromptSave, t_start, slot.n_decoded, slot.n_decoded, Reuse::None, size_bytes);
    for (const PromptCheckpoints::Gone & one : gone) {
        contexts.recorder.slot_operation(one.slot, Operation::PromptEvict, now_ns(), one.position, one.position, Reuse::None, one.size_bytes);
    }
}

}  // namespace draftscope
