#include "companion.h"

#include <new>

namespace draftscope {

void Companion::clear(int32_t slot) {
    llama_memory_seq_rm(target.memory(), slot, -1, -1);    // removing a whole sequence never fails
    if (draft != nullptr) {
        llama_memory_seq_rm(draft->memory(), slot, -1, -1);
    }
}

bool Companion::drop_tail(int32_t slot, int32_t position) {
    return !Faults::take(faults.drop_tail) && llama_memory_seq_rm(target.memory(), slot, position, -1) && drop_drafted(slot, position);
}

bool Companion::drop_drafted(int32_t slot, int32_t position) {
    return draft == nullptr || llama_memory_seq_rm(draft->memory(), slot, position, -1);
}

std::vector<uint8_t> Companion::save_state(int32_t slot) const {
    std::vector<uint8_t> state;
    try {
        if (Faults::take(faults.save)) {
            throw std::bad_alloc();
        }
        state.resize(llama_state_seq_get_size_ext(target.context(), slot, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY));
    } catch (const std::bad_alloc &) {
        return {};
    }
    const size_t written =
        llama_state_seq_get_data_ext(target.context(), state.data(), state.size(), slot, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY);
    if (written == 0 || written != state.size()) {
        state.clear();
    }
    return state;
}

bool Companion::restore_state(int32_t slot, const std::vector<uint8_t> & state, int32_t position) {
    const size_t size = Faults::take(faults.restore) ? state.size() / 2 : state.size();    // libllama wipes the sequence then
    const size_t read = llama_state_seq_set_data_ext(target.context(), state.data(), size, slot, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY);
    if (read != state.size() || !llama_memory_seq_rm(target.memory(), slot, position, -1)) {
        return false;
    }
    return llama_memory_seq_pos_max(target.memory(), slot) == position - 1;
}

bool Companion::in_step(int32_t slot, int32_t n_target, int32_t n_draft) const {
    return llama_memory_seq_pos_max(target.memory(), slot) == n_target - 1 &&
           (draft == nullptr || llama_memory_seq_pos_max(draft->memory(), slot) == n_draft - 1);
}

bool Companion::can_drop_tail() {
    if (target.memory() == nullptr) {
        return false;
    }
    target.clear();
    target.add(0, 0, 0, false);
    target.add(0, 0, 1, true);
    const bool can = target.decode() == DecodeStatus::Done && llama_memory_seq_rm(target.memory(), 0, 1, -1);
    llama_memory_clear(target.memory(), true);
    target.clear();
    return can;
}

}  // namespace draftscope
