#include "slot_memory.h"

#include "error.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace draftscope {

namespace {

// Tokens: fewer than this are decoded again sooner than a state is moved.
constexpr int32_t least_worth = 32;

EngineError unsupported(const std::string & what, const std::string & hint = "") {
    return EngineError("unsupported", what, hint);
}

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
bool SlotMemory::carry_out(Slot & slot, ReusePlan & plan) {
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
                done = plan.checkpoint != nullptr && restore(slot, *plan.checkpoint);
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
bool SlotMemory::restore(Slot & slot, const PromptCheckpoint & checkpoint) {
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
    return true;
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
        stored.checkpoints = checkpoints.of(slot.id);
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

// ---- operations on a slot at rest

void SlotMemory::clear(Slot & slot) {
    const int64_t t_start = now_ns(), bytes = checkpoints.size_bytes(slot.id);
    forget(slot);
    slot.hold({}, 0);
    contexts.recorder.slot_operation(slot.id, Operation::Clear, t_start, 0, 0, Reuse::None, bytes);
}

void SlotMemory::rewind(Slot & slot, int32_t n_tokens) {
    if (n_tokens < 1 || n_tokens > slot.n_tokens()) {
        throw EngineError("bad_settings", "The " + name_of(slot) + " cannot go back to " + std::to_string(n_tokens) + " tokens; it holds " +
                                              std::to_string(slot.n_tokens()) + ".");
    }
    const int64_t              t_start = now_ns();
    const std::vector<int32_t> tokens(slot.tokens.begin(), slot.tokens.begin() + n_tokens);
    ReusePlan                  plan = plan_reuse(past_of(slot), tokens);
    const bool                 done = carry_out(slot, plan);
    slot.hold(tokens, slot.n_decoded);
    contexts.recorder.slot_operation(slot.id, Operation::Rewind, t_start, n_tokens, slot.n_decoded, done ? plan.reuse : Reuse::Refused, 0);
}

std::string SlotMemory::why_not_shift() const {
    if (contexts.model.is_recurrent()) {
        return "The model has recurrent layers, whose state cannot forget a part of what it has seen.";
    }
    if (!contexts.companion.can_shift()) {
        return "The keys of this model cannot be moved to other positions.";
    }
    return "";
}

void SlotMemory::shift(Slot & slot, int32_t n_keep, int32_t n_discard) {
    if (const std::string why = why_not_shift(); !why.empty()) {
        throw unsupported("The context of " + name_of(slot) + " cannot be shifted. " + why, "Use a larger context, or clear the slot.");
    }
    const int32_t n_draft = contexts.driver == nullptr ? slot.n_decoded : contexts.driver->n_positions(slot.id);
    if (n_keep < 0 || n_discard < 1 || n_keep + n_discard > std::min(slot.n_decoded, n_draft)) {
        throw EngineError("bad_settings", "The " + name_of(slot) + " cannot forget " + std::to_string(n_discard) + " tokens behind the first " +
                                              std::to_string(n_keep) + "; it has decoded " + std::to_string(std::min(slot.n_decoded, n_draft)) + ".");
    }
    const int64_t t_start = now_ns();
    contexts.companion.shift(slot.id, n_keep, n_discard);
    slot.forget_tokens(n_keep, n_discard);
    if (contexts.driver != nullptr) {
        contexts.driver->shift(slot.id, n_keep, n_discard);
    }
    contexts.checkpoint.discard(slot.id);
    checkpoints.forget(slot.id);    // of positions that are others now
    contexts.recorder.slot_operation(slot.id, Operation::Shift, t_start, slot.n_tokens(), n_discard, Reuse::Shifted, 0);
}

SlotImage SlotMemory::image(const Slot & slot, Operation operation) const {
    const int64_t t_start = now_ns();
    if (slot.tokens.empty() || slot.n_decoded == 0) {
        throw EngineError("bad_state", "The " + name_of(slot) + " is empty, so there is nothing to save.", "Run a prompt in it first.");
    }
    SlotImage image = capture(slot);
    contexts.recorder.slot_operation(slot.id, operation, t_start, slot.n_tokens(), slot.n_decoded, Reuse::None, image.size_bytes());
    return image;
}

SlotImage SlotMemory::capture(const Slot & slot) const {
    SlotImage image;
    image.tokens    = slot.tokens;
    image.n_decoded = slot.n_decoded;
    if (!contexts.companion.save_whole(slot.id, image.target, image.draft)) {
        throw EngineError("out_of_memory", "There was no memory for the state of " + name_of(slot) + ".", "Nothing was changed.");
    }
    if (contexts.driver != nullptr) {
        image.has_rows = true;
        image.rows     = contexts.driver->state(slot.id);
    }
    return image;
}

// libllama wipes a sequence before it finds out that it cannot take a state, so what was there is kept until it has.
void SlotMemory::put(Slot & slot, SlotImage image, Operation operation) {
    const std::vector<int32_t> tokens = slot.tokens;
    SlotImage                  before = capture(slot);
    before.checkpoints                = checkpoints.of(slot.id);
    if (place(slot, std::move(image), operation)) {
        return;
    }
    if (before.n_decoded == 0 || !place(slot, std::move(before), Operation::SlotRestore)) {
        slot.hold(tokens, 0);    // to be decoded again
    }
    throw EngineError("bad_state", "llama.cpp refused the state for " + name_of(slot) + ".", "It was saved by another build, or with other settings: run the prompt again.");
}

// False: libllama refused it; the slot is empty then.
bool SlotMemory::place(Slot & slot, SlotImage image, Operation operation) {
    const int64_t t_start = now_ns();
    contexts.is_in_order  = false;
    forget(slot);
    slot.hold({}, 0);
    const int64_t size_bytes = image.size_bytes();
    if (contexts.driver != nullptr && image.has_rows && !contexts.driver->has_all_heads(image.rows)) {
        image.has_rows = false;    // saved where fewer heads drafted: the others would draft from keys that were never made
        image.draft.clear();
    }
    const int32_t n_draft    = image.has_rows ? image.rows.n_held() : 0;
    if (!contexts.companion.restore_whole(slot.id, image.target, image.draft, image.n_decoded, n_draft)) {
        forget(slot);
        contexts.recorder.n_refused_states++;
        contexts.recorder.slot_operation(slot.id, Operation::StateRefused, t_start, 0, 0, Reuse::Refused, size_bytes);
        return false;
    }
    const bool lacks_rows = contexts.driver != nullptr && !image.has_rows;
    if (contexts.driver != nullptr) {
        if (image.has_rows) {
            take_rows(slot, std::move(image.rows));
        } else {
            contexts.driver->begin_late(slot.id, image.n_decoded);
            image.checkpoints.clear();    // they lack the rows, too
        }
    }
    checkpoints.put(slot.id, std::move(image.checkpoints));
    slot.hold(std::move(image.tokens), image.n_decoded);
    contexts.recorder.slot_operation(slot.id, operation, t_start, slot.n_tokens(), slot.n_decoded, lacks_rows ? Reuse::Refused : Reuse::Kept, size_bytes);
    return true;
}

std::vector<uint8_t> SlotMemory::state(const Slot & slot) const {
    if (contexts.driver == nullptr) {
        throw unsupported("Nothing is drafted, so " + name_of(slot) + " has no hidden rows.");
    }
    return encode(contexts.driver->state(slot.id), contexts.target.n_embd());
}

void SlotMemory::set_state(const Slot & slot, const std::vector<uint8_t> & bytes) {
    if (contexts.driver == nullptr) {
        throw unsupported("Nothing is drafted, so " + name_of(slot) + " takes no hidden rows.");
    }
    const MtpState now = contexts.driver->state(slot.id);
    if (bytes.empty()) {
        contexts.driver->forget_rows(slot.id);
        return;
    }
    try {
        MtpState state = decode_mtp_state(bytes, contexts.target.n_embd(), contexts.settings.n_ctx + contexts.settings.n_draft_max + 1);
        if (state.n_positions != now.n_positions || state.n_missing != now.n_missing || state.n_heads != now.n_heads || state.rows.size() != now.rows.size()) {
            const auto count = [this](const MtpState & of) { return std::to_string(of.rows.size() / static_cast<size_t>(contexts.target.n_embd())); };
            throw EngineError("bad_state", "The hidden rows of the saved state were refused: there are " + count(state) + " from position " +
                                               std::to_string(state.n_positions) + " on, and " + name_of(slot) + " needs " + count(now) + " from position " +
                                               std::to_string(now.n_positions) + " on.", "Nothing was changed.");
        }
        contexts.driver->set_state(slot.id, std::move(state));
    } catch (const EngineError &) {
        contexts.recorder.n_refused_states++;
        contexts.recorder.slot_operation(slot.id, Operation::StateRefused, now_ns(), slot.n_tokens(), 0, Reuse::Refused, static_cast<int64_t>(bytes.size()));
        throw;
    }
}

// ---- invariants

std::string SlotMemory::find_broken(const Slot & slot) const {
    const int32_t n_draft = contexts.driver == nullptr ? 0 : contexts.driver->n_positions(slot.id);
    const auto    say     = [&](const std::string & what) {
        return "Slot " + std::to_string(slot.id) + " (" + std::to_string(slot.n_tokens()) + " tokens, " + std::to_string(slot.n_decoded) + " decoded, " +
               std::to_string(n_draft) + " in the MTP context, rows of " + std::to_string(n_known(slot)) + "): " + what;
    };
    if (slot.n_decoded > slot.n_tokens()) {
        return say("the target is ahead of the tokens.");
    }
    if (!contexts.companion.in_step(slot.id, slot.n_decoded, contexts.driver == nullptr ? 0 : contexts.driver->n_held(slot.id))) {
        return say("a context holds other positions.");
    }
    if (contexts.driver != nullptr && (n_draft > slot.n_tokens() || n_known(slot) < slot.n_decoded || n_known(slot) > slot.n_tokens())) {
        return say("the hidden rows are not those of the last position.");
    }
    const PromptCheckpoint * newest = checkpoints.newest(slot.id, contexts.settings.n_ctx);
    if (newest != nullptr && newest->position > slot.n_tokens()) {
        return say("a prompt checkpoint lies behind the last token.");
    }
    return "";
}

}  // namespace draftscope
