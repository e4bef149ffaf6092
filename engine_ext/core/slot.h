// One conversation: its tokens, what it is doing, and what it has produced. Its number is its sequence id in both contexts.
#pragma once

#include "recorder.h"
#include "sampling.h"

#include <memory>
#include <optional>
#include <vector>

namespace draftscope {

struct SlotResult {
    int32_t              slot = 0;
    std::string          text;    // bytes; the end may be a part of a UTF-8 character
    std::vector<int32_t> tokens;
    int32_t              n_prompt         = 0;
    int32_t              n_reused         = 0;    // tokens of the prompt that were in memory
    Reuse                reuse            = Reuse::None;
    int32_t              n_rounds         = 0;
    int32_t              draft_n          = 0;
    int32_t              draft_n_accepted = 0;
    std::vector<int32_t> accepted_at;    // [i]: rounds that accepted a token at draft position i + 1
    std::vector<int32_t> drafted_at;
    double               ttft_ms = 0, prompt_ms = 0, generate_ms = 0;
    StopReason           stop = StopReason::None;
    std::string          error;
};

class Slot {
public:
    Slot(int32_t id_, Recorder & recorder_) : id(id_), recorder(&recorder_) {}

    const int32_t id;

    // ---- memory, seen from the tokens
    std::vector<int32_t> tokens;    // prompt and everything emitted; the newest ones are not decoded yet
    int32_t n_decoded = 0;    // positions in the target's memory
    // tokens from n_decoded on are pending: those to replay after a restore, then the sampled token
    int32_t n_pending() const { return static_cast<int32_t>(tokens.size()) - n_decoded; }
    int32_t n_tokens() const { return static_cast<int32_t>(tokens.size()); }

    // ---- the draft of this round
    std::vector<int32_t> draft;
    std::vector<float>   draft_probability;

    std::vector<float> first_logits;    // of a prompt that was in memory as a whole; else empty

    SlotState state() const { return state_; }
    bool      is_active() const { return state_ == SlotState::Prompt || state_ == SlotState::Generating; }
    // Positions that prefill must reach: all of a new prompt; of a slot that is prefilled again all but the sampled token.
    int32_t n_to_prefill() const { return n_tokens() - (result.tokens.empty() ? 0 : 1); }
    // Tokens that the task may still produce.
    int32_t n_left() const { return task_->max_tokens - static_cast<int32_t>(result.tokens.size()); }
    bool    is_first_token_due() const { return result.tokens.empty(); }

    // The first n_kept tokens of the prompt are in memory. logits: of the first token, where that is all of them.
    void start(const Model & model, Task task_, int32_t n_draft_max, int32_t n_kept, Reuse reuse, std::vector<float> logits, int64_t t_submitted);
    // Not active: the slot holds these tokens now, of which n are in memory.
    void hold(std::vector<int32_t> tokens_, int32_t n);
    void forget_tokens(int32_t first, int32_t n);    // of those in memory
    void prefill_again();    // memory has lost tokens: decode those from n_decoded on once more
    void begin_generating();

    // Sample the target's next token from an output of the last decode. `no_token`: the grammar leaves none, and the task has ended.
    int32_t sample(llama_context * ctx, int32_t index);
    // The same from first_logits.
    int32_t sample_first();

    // Take a token over into the text. True when the task ends with it.
    bool emit(const Model & model, int32_t token, int32_t n_ctx);
    void count_round(int32_t n_drafted, int32_t n_accepted);
    void finish(StopReason reason, const std::string & error = "");
    double tokens_per_second() const;

    const Task & task() const { return *task_; }
    std::optional<SlotResult> take_result();

private:
    void    set_state(SlotState state, StopReason reason);
    int32_t end_without(int32_t token);    // the task, where there is no token

    Recorder *               recorder;
    SlotState                state_ = SlotState::Idle;
    std::optional<Task>      task_;
    std::unique_ptr<Sampler> sampler;
    std::optional<StopScanner> stops;
    SlotResult               result;
    bool                     has_result = false;
    int64_t                  t_submitted_ns = 0, t_first_token_ns = 0, t_last_token_ns = 0;
    StopReason               stop_due = StopReason::None;
};

}  // namespace draftscope
