// What can be done to the memory of a slot between two tasks, and what must hold of it after everything.
#include "slot_memory.h"

#include "error.h"
#include "probe.h"

#include <algorithm>
#include <utility>

namespace draftscope {

namespace {

EngineError unsupported(const std::string & what, const std::string & hint = "") {
    return EngineError("unsupported", what, hint);
}

std::string name_of(const Slot & slot) {
    return "slot " + std::to_string(slot.id);
}

RestoreKind kind_of(Operation operation) {
    return operation == Operation::CacheTake ? RestoreKind::Cache : operation == Operation::Fork ? RestoreKind::Fork : RestoreKind::Slot;
}

}  // namespace

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
    const bool                 done = carry_out(slot, plan, RestoreKind::Rewind);
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
    contexts.probe->close(slot.id);
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
    if (slot.tokens.empty()) {
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
    if (slot.n_decoded == 0) {
        return image;    // a slot that was rewound to where nothing of it is in memory
    }
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
    before.take_checkpoints(checkpoints.of(slot.id));
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
    std::vector<float> without;    // the row that was there, before it is forgotten
    if (contexts.driver != nullptr) {
        without.assign(contexts.driver->pending_row(slot.id).begin(), contexts.driver->pending_row(slot.id).end());
    }
    forget(slot);
    slot.hold({}, 0);
    const int64_t size_bytes = image.size_bytes();
    if (image.n_decoded == 0) {
        slot.hold(std::move(image.tokens), 0);
        contexts.recorder.slot_operation(slot.id, operation, t_start, slot.n_tokens(), 0, Reuse::None, size_bytes);
        return true;
    }
    if (contexts.driver != nullptr && image.has_rows && !contexts.driver->has_all_heads(image.rows)) {
        image.has_rows = false;    // saved where fewer heads drafted: the others would draft from keys that were never made
        image.draft.clear();
    }
    const bool      has_row   = contexts.driver != nullptr && image.has_rows;
    const auto      saved     = has_row ? image.rows.pending_row(contexts.target.n_embd()) : std::span<const float>();
    auto            restoring = contexts.probe->begin(slot, kind_of(operation), saved, without);
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
    if (!contexts.probe->end(slot, std::move(restoring), Mechanism::None, 0, image.target)) {
        forget(slot);
        slot.n_decoded = 0;
        return false;
    }
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
