// Questions of the tests to a loaded engine: logits by ways that no task takes.
#include "engine.h"

#include "error.h"

namespace draftscope {

std::vector<float> Engine::logits_of(int32_t slot, const std::vector<int32_t> & tokens, const std::vector<int32_t> & chunks) {
    Parts & p = idle(slot);
    int32_t position = 0;
    for (const int32_t n : chunks) {
        decode_part(slot, tokens, position, position + n);
        position += n;
    }
    std::vector<float> logits = last_logits();
    p.slot_memory->forget(*p.slots[static_cast<size_t>(slot)]);
    return logits;
}

std::pair<std::vector<float>, std::vector<float>> Engine::logits_after_restore(int32_t slot, const std::vector<int32_t> & tokens, int32_t n_saved) {
    Parts &    p       = idle(slot);
    const auto n       = static_cast<int32_t>(tokens.size());
    Slot &     of_test = *p.slots[static_cast<size_t>(slot)];
    decode_part(slot, tokens, 0, n_saved);
    of_test.n_decoded = n_saved;
    const bool saves  = p.checkpoint->saves(slot);
    if (saves && !p.checkpoint->save(of_test)) {
        throw EngineError("out_of_memory", "There was no room for the checkpoint.");
    }
    decode_part(slot, tokens, n_saved, n);
    std::vector<float> before = last_logits();
    if (p.checkpoint->go_back(of_test, n_saved + (saves ? 0 : 1)) != FallbackReason::None) {
        throw EngineError("decode_failed", "The slot could not go back.");
    }
    decode_part(slot, tokens, of_test.n_decoded, n);
    std::vector<float> after = last_logits();
    p.slot_memory->forget(of_test);
    return {std::move(before), std::move(after)};
}

std::pair<std::vector<bool>, std::vector<float>> Engine::logits_after_drops(int32_t slot, const std::vector<int32_t> & tokens,
                                                                            const std::vector<DropStep> & steps) {
    std::vector<int32_t> n_decoded(parts == nullptr ? 0 : parts->slots.size(), 0);
    std::vector<bool>    granted;
    for (int32_t id = 0; id < static_cast<int32_t>(n_decoded.size()); id++) {
        idle(id);
    }
    Parts & p = idle(slot);
    for (const auto & [rows, keeps] : steps) {
        p.target->clear();
        for (const auto & [id, n] : rows) {
            add_part(id, tokens, n_decoded.at(static_cast<size_t>(id)), n);
            n_decoded[static_cast<size_t>(id)] += n;
        }
        decode_added();
        for (const auto & [id, keep] : keeps) {
            granted.push_back(p.companion->drop_tail(id, keep));
            n_decoded.at(static_cast<size_t>(id)) = granted.back() ? keep : 0;
            if (!granted.back()) {
                p.slot_memory->forget(*p.slots[static_cast<size_t>(id)]);
            }
        }
    }
    const int32_t n = n_decoded[static_cast<size_t>(slot)];
    decode_part(slot, tokens, n, static_cast<int32_t>(tokens.size()));
    std::vector<float> logits = last_logits();
    for (int32_t id = 0; id < static_cast<int32_t>(n_decoded.size()); id++) {
        p.slot_memory->forget(*p.slots[static_cast<size_t>(id)]);
    }
    return {std::move(granted), std::move(logits)};
}

Parts & Engine::idle(int32_t slot) {
    Slot &  at_rest = slot_at_rest(slot);
    Parts & p       = *parts;
    p.slot_memory->forget(at_rest);
    at_rest.hold({}, 0);
    p.contexts->is_in_order = false;
    return p;
}

void Engine::decode_part(int32_t slot, const std::vector<int32_t> & tokens, int32_t first, int32_t last) {
    parts->target->clear();
    add_part(slot, tokens, first, last - first);
    decode_added();
}

void Engine::add_part(int32_t slot, const std::vector<int32_t> & tokens, int32_t first, int32_t n) {
    for (int32_t position = first; position < first + n; position++) {
        parts->target->add(slot, tokens.at(static_cast<size_t>(position)), position, position + 1 == first + n);
    }
}

void Engine::decode_added() {
    if (parts->target->decode() != DecodeStatus::Done) {
        throw EngineError("decode_failed", "llama.cpp could not decode the tokens.");
    }
}

std::vector<float> Engine::last_logits() const {
    const float * logits = parts->target->logits(parts->target->size() - 1);
    return {logits, logits + model->n_vocab()};
}

}  // namespace draftscope
