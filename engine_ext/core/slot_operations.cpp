// What can be done to a slot between two tasks.
#include "engine.h"

#include "error.h"

#include <utility>

namespace draftscope {

SlotFacts Engine::slot_facts(int32_t id) const {
    SlotFacts facts;
    if (parts == nullptr || id < 0 || id >= static_cast<int32_t>(parts->slots.size())) {
        return facts;
    }
    const Slot & slot = *parts->slots[static_cast<size_t>(id)];
    facts.n_tokens    = slot.n_tokens();
    facts.n_decoded   = slot.n_decoded;
    if (parts->driver != nullptr) {
        facts.n_draft   = parts->driver->n_positions(id);
        facts.n_waiting = parts->driver->n_waiting(id);
    }
    facts.n_prompt_checkpoints    = static_cast<int32_t>(parts->slot_memory->prompt_checkpoints().of(id).size());
    facts.prompt_checkpoint_bytes = parts->slot_memory->prompt_checkpoints().size_bytes(id);
    return facts;
}

std::vector<int32_t> Engine::slot_tokens(int32_t id) const {
    if (parts == nullptr || id < 0 || id >= static_cast<int32_t>(parts->slots.size())) {
        return {};
    }
    return parts->slots[static_cast<size_t>(id)]->tokens;
}

void Engine::clear_slot(int32_t id) {
    Slot & slot = slot_at_rest(id);
    parts->slot_memory->clear(slot);
    assert_sound();
}

void Engine::rewind_slot(int32_t id, int32_t n_tokens) {
    Slot & slot = slot_at_rest(id);
    parts->slot_memory->rewind(slot, n_tokens);
    assert_sound();
}

void Engine::fork_slot(int32_t id, int32_t to) {
    const Slot & from = slot_at_rest(id);
    Slot &       slot = slot_at_rest(to);
    if (id == to) {
        throw EngineError("bad_settings", "Slot " + std::to_string(id) + " cannot be forked to itself.", "Choose another slot.");
    }
    SlotImage image = parts->slot_memory->image(from, Operation::Fork);
    image.take_checkpoints(parts->slot_memory->prompt_checkpoints().of(id));
    parts->slot_memory->put(slot, std::move(image), Operation::Fork);
    assert_sound();
}

void Engine::shift_slot(int32_t id, int32_t n_keep, int32_t n_discard) {
    Slot & slot = slot_at_rest(id);
    parts->slot_memory->shift(slot, n_keep, n_discard);
    assert_sound();
}

std::vector<uint8_t> Engine::save_slot(int32_t id) {
    const Slot & slot = slot_at_rest(id);
    SlotImage    image = parts->slot_memory->image(slot, Operation::SlotSave);
    image.take_checkpoints(parts->slot_memory->prompt_checkpoints().of(id));
    return encode(image, parts->target->n_embd());
}

void Engine::restore_slot(int32_t id, const std::vector<uint8_t> & bytes) {
    Slot & slot = slot_at_rest(id);
    SlotImage image;
    try {
        image = decode_slot_image(bytes, parts->target->n_embd(), model->n_vocab(), parts->settings.n_ctx);
    } catch (const EngineError &) {
        recorder.n_refused_states++;
        recorder.slot_operation(id, Operation::StateRefused, now_ns(), slot.n_tokens(), 0, Reuse::Refused, static_cast<int64_t>(bytes.size()));
        throw;
    }
    parts->slot_memory->put(slot, std::move(image), Operation::SlotRestore);
    assert_sound();
}

std::vector<uint8_t> Engine::get_state(int32_t id) {
    const Slot & slot = slot_at_rest(id);
    return parts->slot_memory->state(slot);
}

void Engine::set_state(int32_t id, const std::vector<uint8_t> & bytes) {
    const Slot & slot = slot_at_rest(id);
    parts->slot_memory->set_state(slot, bytes);
    assert_sound();
}

void Engine::assert_sound() const {
#ifndef NDEBUG
    if (const std::string found = find_broken(); !found.empty()) {
        throw EngineError("internal", found);
    }
#endif
}

std::string Engine::find_broken() const {
    std::string found;
    for (const auto & slot : parts->slots) {
        found += parts->slot_memory->find_broken(*slot);
    }
    return found;
}

}  // namespace draftscope
