#include "memory_use.h"

namespace draftscope {

namespace {

struct Split {
    int64_t host = 0, device = 0;

    void add(ggml_backend_buffer_type_t type, size_t bytes) { (ggml_backend_buft_is_host(type) ? host : device) += static_cast<int64_t>(bytes); }
    int64_t total() const { return host + device; }
    // A part of the bytes, in the proportion of the whole: libllama tells the buffers of a context's memory, not of its kinds.
    Split part(int64_t bytes) const {
        const double share = total() == 0 ? 0.0 : static_cast<double>(bytes) / static_cast<double>(total());
        Split        taken;
        taken.device = static_cast<int64_t>(share * static_cast<double>(device));
        taken.host   = total() == 0 ? 0 : bytes - taken.device;
        return taken;
    }
    Split operator-(const Split & other) const { return {host - other.host, device - other.device}; }
};

MemoryUse use(const char * kind, const Split & bytes) {
    return {kind, bytes.host, bytes.device};
}

}  // namespace

int64_t state_tensor_bytes(const Decoder & target, int32_t slot) {
    const llama_state_seq_flags part = LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY;
    const size_t whole   = llama_state_seq_get_size_ext(target.context(), slot, part);
    const size_t headers = llama_state_seq_get_size_ext(target.context(), slot, part | LLAMA_STATE_SEQ_FLAGS_ON_DEVICE);
    return whole > headers ? static_cast<int64_t>(whole - headers) : 0;
}

std::vector<MemoryUse> measure_memory(const Decoder & target, const Decoder * draft, const SavedBytes & saved, int64_t state_bytes,
                                      int32_t n_slots, int32_t n_steps_back, int32_t n_spares) {
    if (&llama_get_memory_breakdown == nullptr) {
        return {};
    }
    Split weights, context, of_draft, compute;
    for (const auto & [type, bytes] : llama_get_memory_breakdown(target.context())) {
        weights.add(type, bytes.model);
        context.add(type, bytes.context);
        compute.add(type, bytes.compute);
    }
    if (draft != nullptr) {
        const bool is_of_another_model = llama_get_model(draft->context()) != llama_get_model(target.context());
        for (const auto & [type, bytes] : llama_get_memory_breakdown(draft->context())) {
            weights.add(type, is_of_another_model ? bytes.model : 0);
            of_draft.add(type, bytes.context);
            compute.add(type, bytes.compute);
        }
    }
    const Split live   = context.part(state_bytes * n_slots * (1 + n_steps_back));
    const Split spares = context.part(state_bytes * n_spares);
    // A state that stays on the device is where the live one is.
    const bool on_host = live.device == 0;
    Split      checkpoints{spares.host + saved.host + (on_host ? saved.device : 0), spares.device + (on_host ? 0 : saved.device)};
    return {use("weights", weights), use("kv", context - live - spares), use("recurrent", live), use("checkpoints", checkpoints),
            use("draft", of_draft),  use("compute", compute)};
}

}  // namespace draftscope
