#include "slot.h"

#include <algorithm>

namespace draftscope {

namespace {
double ms_between(int64_t from_ns, int64_t to_ns) {
    return static_cast<double>(to_ns - from_ns) / 1e6;
}
}  // namespace

void Slot::set_state(SlotState state, StopReason reason) {
    state_ = state;
    recorder->slot_state(id, state, n_tokens(), reason, static_cast<int>(result.tokens.size()));
}

void Slot::start(const Model & model, Task task, int32_t n_draft_max, int32_t n_kept, Reuse reuse, std::vector<float> logits, int64_t t_submitted) {
    task_        = std::move(task);
    tokens       = task_->prompt;
    n_decoded    = n_kept;
    first_logits = std::move(logits);
    draft.clear();
    draft_probability.clear();
    sampler = std::make_unique<Sampler>(model, *task_);
    for (const int32_t token : tokens) {
        sampler->accept(token);
    }
    stops.emplace(task_->stop);
    result          = SlotResult{};
    result.slot     = id;
    result.n_prompt = n_tokens();
    result.n_reused = n_kept;
    result.reuse    = reuse;
    result.accepted_at.assign(static_cast<size_t>(n_draft_max), 0);
    result.drafted_at.assign(static_cast<size_t>(n_draft_max), 0);
    has_result       = false;
    stop_due         = StopReason::None;
    t_submitted_ns   = t_submitted;
    t_first_token_ns = t_last_token_ns = 0;
    set_state(SlotState::Prompt, StopReason::None);
}

void Slot::hold(std::vector<int32_t> tokens_, int32_t n) {
    tokens    = std::move(tokens_);
    n_decoded = n;
}

void Slot::forget_tokens(int32_t first, int32_t n) {
    tokens.erase(tokens.begin() + first, tokens.begin() + first + n);
    n_decoded -= n;
}

void Slot::prefill_again() {
    draft.clear();
    draft_probability.clear();
    set_state(SlotState::Prompt, StopReason::None);
}

void Slot::begin_generating() {
    set_state(SlotState::Generating, StopReason::None);
}

int32_t Slot::sample(llama_context * ctx, int32_t index) {
    return end_without(sampler->sample(ctx, index));
}

int32_t Slot::sample_first() {
    return end_without(sampler->sample(first_logits.data()));
}

int32_t Slot::end_without(int32_t token) {
    if (token == no_token) {
        const GrammarEnd end = sampler->grammar_end();
        finish(end == GrammarEnd::Complete ? StopReason::EndOfGeneration : StopReason::Failed, describe(end, id));
    }
    return token;
}

bool Slot::emit(const Model & model, int32_t token, int32_t n_ctx) {
    tokens.push_back(token);
    result.tokens.push_back(token);
    t_last_token_ns = now_ns();
    if (t_first_token_ns == 0) {
        t_first_token_ns = t_last_token_ns;
    }
    // What a grammar has read is shown, control tokens too, but for the one that ends the text.
    const bool shows_control = !task_->grammar.empty() && !llama_vocab_is_eog(model.vocab(), token);
    const bool stop_found    = stops->append(result.text, model.piece(token, shows_control));
    if (!task_->ignore_eos && llama_vocab_is_eog(model.vocab(), token)) {
        stop_due = StopReason::EndOfGeneration;
    } else if (stop_found) {
        stop_due = StopReason::StopString;
    } else if (static_cast<int32_t>(result.tokens.size()) >= task_->max_tokens) {
        stop_due = StopReason::MaxTokens;
    } else if (n_tokens() >= n_ctx) {
        stop_due = StopReason::ContextFull;
    }
    if (stop_due != StopReason::None) {
        finish(stop_due);
    }
    return stop_due != StopReason::None;
}

void Slot::count_round(int32_t n_drafted, int32_t n_accepted) {
    result.n_rounds++;
    result.draft_n += n_drafted;
    result.draft_n_accepted += n_accepted;
    for (int32_t i = 0; i < n_drafted; i++) {
        result.drafted_at[static_cast<size_t>(i)]++;
        result.accepted_at[static_cast<size_t>(i)] += i < n_accepted ? 1 : 0;
    }
}

void Slot::finish(StopReason reason, const std::string & error) {
    const int64_t t_end = now_ns();
    result.stop         = reason;
    result.error        = error;
    if (t_first_token_ns != 0) {
        result.ttft_ms     = ms_between(t_submitted_ns, t_first_token_ns);
        result.prompt_ms   = result.ttft_ms;
        result.generate_ms = ms_between(t_first_token_ns, t_last_token_ns);
    } else {
        result.prompt_ms = ms_between(t_submitted_ns, t_end);
    }
    has_result = true;
    draft.clear();
    sampler.reset();
    set_state(SlotState::Done, reason);
}

double Slot::tokens_per_second() const {
    // The first token belongs to the prompt's time: n - 1 tokens took the time from the first to the last.
    const double seconds = ms_between(t_first_token_ns, t_last_token_ns) / 1e3;
    return seconds > 0 ? static_cast<double>(result.tokens.size() - 1) / seconds : 0.0;
}

std::optional<SlotResult> Slot::take_result() {
    if (!has_result) {
        return std::nullopt;
    }
    has_result = false;
    return result;
}

}  // namespace draftscope
