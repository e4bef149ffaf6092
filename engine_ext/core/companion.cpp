#include "companion.h"

#include <algorithm>
#include <new>
#include <utility>

namespace draftscope {

namespace {

// A range of positions that no token has: copying it moves the recurrent state, which ignores positions, and no keys or
// values.
constexpr llama_pos nowhere = 1 << 30;

llama_state_seq_flags flags_of(Companion::Place place) {
    const llama_state_seq_flags where = place == Companion::Place::Device ? LLAMA_STATE_SEQ_FLAGS_ON_DEVICE : 0;
    return LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY | where;
}

// Devices that may hold recurrent states: those of the model, and the CPU when it has no other.
std::vector<ggml_backend_dev_t> devices_of(const llama_model * model) {
    std::vector<ggml_backend_dev_t> devices;
    if (&llama_model_n_devices != nullptr && &llama_model_get_device != nullptr) {
        for (int i = 0; i < llama_model_n_devices(model); i++) {
            devices.push_back(llama_model_get_device(model, i));
        }
    }
    if (devices.empty()) {
        devices.push_back(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
    }
    return devices;
}

bool has_room(ggml_backend_dev_t device, size_t size_bytes) {
    size_t free_bytes = 0, total_bytes = 0;
    ggml_backend_dev_memory(device, &free_bytes, &total_bytes);
    if (total_bytes != 0 && free_bytes < size_bytes) {
        return false;
    }
    ggml_backend_buffer_t trial = ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(device), size_bytes);
    const bool            fits  = trial != nullptr;
    ggml_backend_buffer_free(trial);
    return fits;
}

}  // namespace

void Companion::clear(int32_t slot) {
    llama_memory_seq_rm(target.memory(), slot, -1, -1);    // removing a whole sequence never fails
    if (first_spare >= 0) {
        llama_memory_seq_rm(target.memory(), first_spare + slot, -1, -1);
    }
    if (draft != nullptr) {
        llama_memory_seq_rm(draft->memory(), slot, -1, -1);
    }
    if (history != nullptr) {
        history->drop_companion(slot, 0);
    }
}

int32_t Companion::n_draft_held(int32_t slot) const {
    if (draft == nullptr) {
        return -1;
    }
    const llama_pos last = llama_memory_seq_pos_max(draft->memory(), slot);
    const bool has_window = llama_model_n_swa(llama_get_model(draft->context())) > 0;    // what is outside of it is not needed, nor saved
    return last < 0 ? 0 : last + 1 - (has_window ? 0 : llama_memory_seq_pos_min(draft->memory(), slot));
}

bool Companion::drop_tail(int32_t slot, int32_t position) {
    return drop_target_tail(slot, position) && drop_drafted(slot, position);
}

bool Companion::drop_target_tail(int32_t slot, int32_t position) {
    if (Faults::take(faults.drop_tail)) {
        return false;
    }
    if (llama_n_rs_seq(target.context()) > 0) {
        if (!target.can_step_back(slot, position)) {
            return false;
        }
        target.use_up_steps(slot);
    }
    return llama_memory_seq_rm(target.memory(), slot, position, -1);
}

bool Companion::drop_drafted(int32_t slot, int32_t position) {
    if (history != nullptr) {
        history->drop_companion(slot, position);
    }
    return draft == nullptr || llama_memory_seq_rm(draft->memory(), slot, position, -1);
}

int64_t Companion::state_bytes(int32_t slot) const {
    return static_cast<int64_t>(llama_state_seq_get_size_ext(target.context(), slot, flags_of(Place::Host)));
}

std::vector<uint8_t> Companion::save_state(int32_t slot, Place place, std::vector<uint8_t> memory) const {
    std::vector<uint8_t> state = std::move(memory);
    try {
        if (Faults::take(faults.save)) {
            throw std::bad_alloc();
        }
        state.resize(llama_state_seq_get_size_ext(target.context(), slot, flags_of(place)));
    } catch (const std::bad_alloc &) {
        return {};
    }
    const size_t written = llama_state_seq_get_data_ext(target.context(), state.data(), state.size(), slot, flags_of(place));
    if (written == 0 || written != state.size()) {
        state.clear();
    }
    return state;
}

void Companion::lose_if_due(int32_t slot) const {
    if (Faults::take(faults.lost)) {
        llama_memory_seq_rm(target.memory(), slot, -1, -1);
    }
}

bool Companion::can_take(int32_t slot, int64_t saved_bytes) const {
    lose_if_due(slot);
    return state_bytes(slot) == saved_bytes;
}

bool Companion::restore_state(int32_t slot, const std::vector<uint8_t> & state, Place place, int32_t position) {
    if (Faults::take(faults.restore)) {    // a cut blob, at which libllama wipes the sequence
        llama_state_seq_set_data_ext(target.context(), state.data(), state.size() / 2, slot, flags_of(Place::Host));
        return false;
    }
    const size_t read = llama_state_seq_set_data_ext(target.context(), state.data(), state.size(), slot, flags_of(place));
    if (read != state.size() || !llama_memory_seq_rm(target.memory(), slot, position, -1)) {
        return false;
    }
    return llama_memory_seq_pos_max(target.memory(), slot) == position - 1;
}

bool Companion::has_device_room(int64_t size_bytes) const {
    if (Faults::take(faults.device_room)) {
        return false;
    }
    const std::vector<ggml_backend_dev_t> devices = devices_of(llama_get_model(target.context()));
    return std::all_of(devices.begin(), devices.end(),
                       [size_bytes](ggml_backend_dev_t device) { return has_room(device, static_cast<size_t>(size_bytes)); });
}

void Companion::share_state(int32_t slot) {
    llama_memory_seq_cp(target.memory(), slot, first_spare + slot, nowhere, nowhere + 1);
}

bool Companion::take_back_state(int32_t slot, int32_t position) {
    if (Faults::take(faults.restore)) {
        return false;
    }
    lose_if_due(slot);
    llama_memory_seq_cp(target.memory(), first_spare + slot, slot, nowhere, nowhere + 1);
    return llama_memory_seq_rm(target.memory(), slot, position, -1) && llama_memory_seq_pos_max(target.memory(), slot) == position - 1;
}

bool Companion::save_whole(int32_t slot, std::vector<uint8_t> & of_target, std::vector<uint8_t> & of_draft) const {
    const auto save = [slot](llama_context * ctx, std::vector<uint8_t> & state) {
        try {
            state.resize(llama_state_seq_get_size_ext(ctx, slot, 0));
        } catch (const std::bad_alloc &) {
            return false;
        }
        return llama_state_seq_get_data_ext(ctx, state.data(), state.size(), slot, 0) == state.size() && !state.empty();
    };
    return save(target.context(), of_target) && (draft == nullptr || save(draft->context(), of_draft));
}

int64_t Companion::whole_bytes(int32_t slot) const {
    const size_t of_draft = draft == nullptr ? 0 : llama_state_seq_get_size_ext(draft->context(), slot, 0);
    return static_cast<int64_t>(llama_state_seq_get_size_ext(target.context(), slot, 0) + of_draft);
}

bool Companion::restore_whole(int32_t slot, const std::vector<uint8_t> & of_target, const std::vector<uint8_t> & of_draft, int32_t n_target, int32_t n_draft) {
    const auto take = [slot](Decoder & decoder, const std::vector<uint8_t> & state, int32_t n) {
        return llama_state_seq_set_data_ext(decoder.context(), state.data(), state.size(), slot, 0) == state.size() &&
               llama_memory_seq_pos_max(decoder.memory(), slot) == n - 1;
    };
    target.use_up_steps(slot);
    if (history != nullptr) {
        history->forget(slot);
    }
    if (Faults::take(faults.restore)) {
        return false;
    }
    return take(target, of_target, n_target) && (draft == nullptr || of_draft.empty() || take(*draft, of_draft, n_draft));
}

bool Companion::can_shift() const {
    return llama_memory_can_shift(target.memory()) && (draft == nullptr || llama_memory_can_shift(draft->memory()));
}

void Companion::shift(int32_t slot, int32_t n_keep, int32_t n_discard) {
    if (history != nullptr) {
        history->shift(slot, n_keep, n_discard);
    }
    for (const Decoder * decoder : {static_cast<const Decoder *>(&target), static_cast<const Decoder *>(draft)}) {
        if (decoder != nullptr) {
            llama_memory_seq_rm(decoder->memory(), slot, n_keep, n_keep + n_discard);
            llama_memory_seq_add(decoder->memory(), slot, n_keep + n_discard, -1, -n_discard);
        }
    }
}

bool Companion::in_step(int32_t slot, int32_t n_target, int32_t n_draft) const {
    return llama_memory_seq_pos_max(target.memory(), slot) == n_target - 1 &&
           (draft == nullptr || llama_memory_seq_pos_max(draft->memory(), slot) == n_draft - 1);
}

bool Companion::can_drop_tail(Decoder & decoder) {
    if (decoder.memory() == nullptr) {
        return false;
    }
    decoder.clear();
    decoder.add(0, 0, 0, false);
    decoder.add(0, 0, 1, true);
    const bool can = decoder.decode() == DecodeStatus::Done && llama_memory_seq_rm(decoder.memory(), 0, 1, -1);
    llama_memory_clear(decoder.memory(), true);
    decoder.clear();
    return can;
}

}  // namespace draftscope
