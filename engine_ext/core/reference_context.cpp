#include "reference_context.h"

#include "error.h"

namespace draftscope {

namespace {

constexpr uint32_t n_most = 2;    // sequences

}  // namespace

bool ReferenceContext::make() {
    if (decoder != nullptr || is_refused) {
        return decoder != nullptr;
    }
    llama_context_params params = llama_context_default_params();
    params.n_ctx                = n_most * llama_n_ctx_seq(contexts.target.context());
    params.n_seq_max            = n_most;
    params.n_outputs_max        = n_most;
    params.n_batch = params.n_ubatch = 64;
    params.n_threads = params.n_threads_batch = contexts.settings.n_threads;
    params.swa_full                           = true;
    try {
        decoder = std::make_unique<Decoder>(contexts.model.get(), params, "reference");
    } catch (const EngineError &) {
        is_refused = true;
    }
    return decoder != nullptr;
}

bool ReferenceContext::take(std::span<const uint8_t> whole, std::span<const uint8_t> state, int32_t position, int32_t n_sequences) {
    llama_context * ctx = decoder->context();
    llama_memory_clear(decoder->memory(), true);
    bool is_taken = true;
    for (int32_t i = 0; i < n_sequences && is_taken; i++) {
        is_taken = llama_state_seq_set_data_ext(ctx, whole.data(), whole.size(), i, 0) == whole.size() &&
                   llama_state_seq_set_data_ext(ctx, state.data(), state.size(), i, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY) == state.size() &&
                   llama_memory_seq_rm(decoder->memory(), i, position, -1);
    }
    return is_taken;
}

std::vector<uint8_t> ReferenceContext::state_after(std::span<const uint8_t> whole, std::span<const uint8_t> state, int32_t position,
                                                   std::span<const int32_t> tokens, How how) {
    const int32_t n_sequences = how == How::Twice ? 2 : 1;
    if (!make() || static_cast<int32_t>(tokens.size()) * n_sequences > decoder->capacity() || !take(whole, state, position, n_sequences)) {
        return {};
    }
    const size_t n_chunk = how == How::OneByOne ? 1 : tokens.size();
    for (size_t first = 0; first < tokens.size(); first += n_chunk) {
        decoder->clear();
        for (int32_t seq = 0; seq < n_sequences; seq++) {
            for (size_t i = first; i < first + n_chunk; i++) {
                decoder->add(seq, tokens[i], position + static_cast<int32_t>(i), i + 1 == tokens.size());
            }
        }
        if (decoder->decode() != DecodeStatus::Done) {
            return {};
        }
    }
    llama_context *      ctx = decoder->context();
    std::vector<uint8_t> after(llama_state_seq_get_size_ext(ctx, 0, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY));
    after.resize(llama_state_seq_get_data_ext(ctx, after.data(), after.size(), 0, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY));
    return after;
}

}  // namespace draftscope
