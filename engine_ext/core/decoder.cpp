#include "decoder.h"

#include "error.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace draftscope {

// libllama does not say how many graphs a decode took (it cuts batches). It asks this hook about every node before it
// computes a graph, and every graph has one node of this name; the answer is always "not needed", so nothing is cut.
bool Decoder::on_node(ggml_tensor * tensor, bool ask, void * self) {
    if (ask && tensor->name[0] == 'r' && std::strcmp(tensor->name, "result_output") == 0) {
        static_cast<Decoder *>(self)->graph_runs++;
    }
    return false;
}

bool Decoder::on_abort(void * self) {
    const auto * decoder = static_cast<Decoder *>(self);
    return decoder->should_abort && decoder->should_abort();
}

Decoder::Decoder(llama_model * model, llama_context_params params, const char * what)
    : width(llama_model_n_embd_out(model)) {
    params.cb_eval             = on_node;
    params.cb_eval_user_data   = this;
    params.abort_callback      = on_abort;
    params.abort_callback_data = this;
    params.no_perf             = true;
    ctx.reset(llama_init_from_model(model, params));
    if (ctx == nullptr) {
        throw EngineError("out_of_memory",
                          std::string("llama.cpp could not make the ") + what + " context for " +
                              std::to_string(params.n_seq_max) + " slots and " + std::to_string(params.n_ctx) + " tokens in all.",
                          "Use fewer slots or a smaller context; the log has llama.cpp's reason.");
    }
    batch.reset(llama_batch_ext_init(ctx.get()));
    first_position.assign(params.n_seq_max, -1);
}

void Decoder::clear() {
    llama_batch_ext_clear(batch.get());
    added.clear();
    in_batch.clear();
}

int32_t Decoder::add(int32_t seq, int32_t token, int32_t position, bool output, const float * row) {
    const int32_t index = llama_batch_ext_add_token(batch.get(), seq, token);
    if (index < 0) {
        throw EngineError("internal", "llama.cpp refused token " + std::to_string(token) + " of slot " + std::to_string(seq) +
                                          " for a batch of " + std::to_string(size()) + " tokens.");
    }
    if (std::find(in_batch.begin(), in_batch.end(), seq) == in_batch.end()) {
        in_batch.push_back(seq);
        first_position[static_cast<size_t>(seq)] = position;
    }
    const llama_pos pos = position;
    llama_batch_ext_set_pos(batch.get(), index, &pos);
    llama_batch_ext_set_output_logits(batch.get(), index, output);
    if (row != nullptr) {
        llama_batch_ext_set_embd_token(batch.get(), index, {row, 1, static_cast<size_t>(width)});
    }
    added.push_back({seq, position, token});
    if (row != nullptr && on_hidden_row) {
        on_hidden_row(added.back(), {row, static_cast<size_t>(width)});
    }
    return index;
}

bool Decoder::can_step_back(int32_t seq, int32_t position) const {
    return std::find(in_batch.begin(), in_batch.end(), seq) != in_batch.end() && position > first_position[static_cast<size_t>(seq)];
}

DecodeStatus Decoder::decode() {
    int32_t status = -1;
    try {
        status = llama_process(ctx.get(), LLAMA_PROCESS_TYPE_DECODE, batch.get());
        llama_synchronize(ctx.get());
    } catch (const std::exception &) {
        status = -1;
    }
    return status == 0 ? DecodeStatus::Done : status == 2 ? DecodeStatus::Aborted : DecodeStatus::Failed;
}

const float * Decoder::logits(int32_t index) const {
    return llama_get_logits_ith(ctx.get(), index);
}

const float * Decoder::hidden_row(int32_t index) const {
    return llama_get_embeddings_nextn_ith(ctx.get(), index);
}

}  // namespace draftscope
