// A llama context with the batch that feeds it: rows in, logits and hidden rows out, calls' graph runs counted.
#pragma once

#include "llama_api.h"

#include <functional>
#include <span>
#include <vector>

namespace draftscope {

enum class DecodeStatus { Done, Aborted, Failed };

class Decoder {
public:
    // Makes the context. Throws EngineError(out_of_memory): libllama refused; its reason is in the log.
    Decoder(llama_model * model, llama_context_params params, const char * what);
    Decoder(const Decoder &)             = delete;
    Decoder & operator=(const Decoder &) = delete;

    // Asked while a graph is computed, from several threads and on the CPU only; true aborts the decode.
    std::function<bool()> should_abort;

    llama_context * context() const { return ctx.get(); }
    llama_memory_t  memory() const { return llama_get_memory(ctx.get()); }
    int32_t         capacity() const { return static_cast<int32_t>(llama_n_batch(ctx.get())); }
    int32_t         n_embd() const { return width; }

    // ---- the next decode
    void    clear();
    int32_t size() const { return static_cast<int32_t>(added.size()); }
    // Add a token; row (n_embd floats, copied) is the hidden row that an MTP context takes along. Returns its index.
    // Throws EngineError(internal) when libllama refuses it (batch full, bad token); the batch is as before.
    int32_t add(int32_t seq, int32_t token, int32_t position, bool output, const float * row = nullptr);
    // Whether a native rollback of a sequence may drop its positions from `position` on, as far as its memory reaches. The
    // newest decode leaves a state after each token of its sequences, none before the first; it may move those of others.
    bool can_step_back(int32_t seq, int32_t position) const;
    // The sequence has stepped back: once is all that a decode allows.
    void use_up_steps(int32_t seq) { std::erase(in_batch, seq); }

    // The rows of the batch: sequence, position and token of each.
    struct Row {
        int32_t seq, position, token;
    };
    std::span<const Row> rows() const { return added; }

    // Told of each token that is added with a hidden row, before it is decoded.
    std::function<void(const Row & row, std::span<const float> hidden)> on_hidden_row;

    // Compute. Aborted and Failed leave parts of the batch in memory: the caller clears the sequences it brought.
    DecodeStatus decode();

    // ---- results of the last decode by the index that add() returned; borrowed until the next decode
    const float * logits(int32_t index) const;        // n_vocab floats; the row was an output
    const float * hidden_row(int32_t index) const;    // n_embd floats

    int64_t n_graph_runs() const { return graph_runs; }    // since the context was made

private:
    static bool on_node(ggml_tensor * tensor, bool ask, void * self);
    static bool on_abort(void * self);

    ContextPtr ctx;
    BatchPtr   batch;
    int32_t    width      = 0;
    int64_t    graph_runs = 0;
    std::vector<Row>     added;             // to the batch being filled or decoded last
    std::vector<int32_t> first_position;    // by sequence, of the batch being filled or decoded last
    std::vector<int32_t> in_batch;          // sequences that have rows in that batch, without those that have stepped back
};

}  // namespace draftscope
