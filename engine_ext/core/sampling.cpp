#include "sampling.h"

#include "probability.h"

#include <algorithm>
#include <ctime>
#include <limits>

namespace draftscope {

namespace {

// Logits divided by less than this may overflow, and the choice among infinities is none. Unequal logits differ by far
// more, so the most probable token would be chosen anyway.
constexpr float coldest = 1e-10f;

// Processor time for a token under a grammar. A vocabulary of 150 thousand tokens takes some ten milliseconds; a grammar with
// ever more states takes a multiple at each token, and no call of libllama can be interrupted.
constexpr int64_t longest_ns = 300'000'000;

int64_t processor_ns() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

// Tokens that must not come: those the model file suppresses, and the end-of-generation tokens when they are ignored.
std::vector<int32_t> banned_tokens(const Model & model, bool ignore_eos) {
    int32_t              n_suppressed = 0;
    const llama_token *  suppressed   = llama_vocab_get_suppress_tokens(model.vocab(), &n_suppressed);
    std::vector<int32_t> banned(suppressed, suppressed + n_suppressed);
    for (int32_t token = 0; ignore_eos && token < model.n_vocab(); token++) {
        if (llama_vocab_is_eog(model.vocab(), token)) {
            banned.push_back(token);
        }
    }
    std::sort(banned.begin(), banned.end());
    return banned;
}

}  // namespace

Sampler::Sampler(const Model & model, const Task & task)
    : chain(llama_sampler_chain_init({/*.no_perf =*/true})), n_vocab(model.n_vocab()), banned(banned_tokens(model, task.ignore_eos)) {
    const SamplingSettings & settings = task.sampling;
    if (task.grammar.empty()) {
        add_bans();
    } else {
        grammar.emplace(model, task.grammar);
    }
    const bool penalizes = settings.repeat_last_n != 0 && (settings.repeat_penalty != 1.0f || settings.presence_penalty != 0.0f);
    is_greedy            = !penalizes && settings.temperature < coldest;
    if (penalizes) {
        add_penalties(settings);
    }
    add_choice(settings);
}

void Sampler::add_bans() {
    if (!banned.empty()) {
        std::vector<llama_logit_bias> biases;
        for (const int32_t token : banned) {
            biases.push_back({token, -std::numeric_limits<float>::infinity()});
        }
        llama_sampler_chain_add(chain.get(), llama_sampler_init_logit_bias(n_vocab, static_cast<int32_t>(biases.size()), biases.data()));
    }
}

void Sampler::add_penalties(const SamplingSettings & settings) {
    SamplerPtr made(llama_sampler_init_penalties(n_vocab, settings.repeat_last_n, settings.repeat_penalty, 0.0f, settings.presence_penalty));
    if (grammar) {
        penalties = std::move(made);
    } else {
        llama_sampler_chain_add(chain.get(), made.release());
    }
}

void Sampler::add_choice(const SamplingSettings & settings) {
    const auto add = [this](llama_sampler * sampler) { llama_sampler_chain_add(chain.get(), sampler); };
    if (settings.temperature < coldest) {
        n_best = 1;
        add(llama_sampler_init_greedy());
        return;
    }
    if (settings.top_k > 0) {
        n_best = static_cast<size_t>(settings.top_k);
        add(llama_sampler_init_top_k(settings.top_k));
    }
    if (settings.top_p < 1.0f) {
        add(llama_sampler_init_top_p(settings.top_p, 1));
    }
    if (settings.min_p > 0.0f) {
        add(llama_sampler_init_min_p(settings.min_p, 1));
    }
    add(llama_sampler_init_temp(settings.temperature));
    add(llama_sampler_init_dist(settings.seed));
}

void Sampler::accept(int32_t token) {
    llama_sampler_accept(penalties != nullptr ? penalties.get() : chain.get(), token);
}

// Most greedy choices need no list of all candidates, which libllama's chain would make and search.
int32_t Sampler::sample(llama_context * ctx, int32_t index) {
    if (grammar) {
        return sample_allowed(llama_get_logits_ith(ctx, index));
    }
    if (is_greedy) {
        const int32_t token = most_probable_token(llama_get_logits_ith(ctx, index), n_vocab);
        if (!std::binary_search(banned.begin(), banned.end(), token)) {
            return token;
        }
    }
    return llama_sampler_sample(chain.get(), ctx, index);
}

int32_t Sampler::sample(const float * logits) {
    if (grammar) {
        return sample_allowed(logits);
    }
    candidates.clear();
    for (int32_t token = 0; token < n_vocab; token++) {
        candidates.push_back({token, logits[token], 0.0f});
    }
    llama_token_data_array all{candidates.data(), candidates.size(), -1, false};
    llama_sampler_apply(chain.get(), &all);
    const int32_t token = all.data[all.selected].id;
    accept(token);
    return token;
}

int32_t Sampler::sample_allowed(const float * logits) {
    const int64_t t_start = processor_ns();
    int32_t       token   = is_greedy ? most_probable_token(logits, n_vocab) : no_token;
    if (!is_greedy || std::binary_search(banned.begin(), banned.end(), token) || !grammar->allows(token)) {
        token = choose_allowed(logits);
    }
    const bool is_accepted = token != no_token && accept_choice(token);
    if (is_accepted && processor_ns() - t_start > longest_ns) {
        grammar_end_ = GrammarEnd::TooSlow;
    }
    return grammar_end_ == GrammarEnd::None ? token : no_token;
}

bool Sampler::accept_choice(int32_t token) {
    accept(token);
    if (!grammar->accept(token)) {
        grammar_end_ = GrammarEnd::NoState;
    }
    return grammar_end_ == GrammarEnd::None;
}

int32_t Sampler::choose_allowed(const float * logits) {
    candidates.clear();
    for (int32_t token = 0; token < n_vocab; token++) {
        if (logits[token] > -std::numeric_limits<float>::infinity() && !std::binary_search(banned.begin(), banned.end(), token)) {
            candidates.push_back({token, logits[token], 0.0f});
        }
    }
    if (penalties != nullptr) {
        llama_token_data_array all{candidates.data(), candidates.size(), -1, false};
        llama_sampler_apply(penalties.get(), &all);
    }
    if (try_most_probable()) {
        candidates.swap(best);
    } else {
        grammar->filter(candidates);
    }
    if (candidates.empty()) {
        grammar_end_ = grammar->may_end() ? GrammarEnd::Complete : GrammarEnd::NothingFits;
        return no_token;
    }
    llama_token_data_array allowed{candidates.data(), candidates.size(), -1, false};
    llama_sampler_apply(chain.get(), &allowed);
    return allowed.data[allowed.selected].id;
}

// Where the chain chooses among the most probable tokens only, the grammar need not be asked about the others: `best` holds as
// many allowed ones as it chooses among. False where that is not sure: too few of those tried are allowed, or some are equal
// in probability, so that their order in the chain would hang on how it sorts.
bool Sampler::try_most_probable() {
    const size_t n_tried = std::max<size_t>(2 * n_best, 16);
    if (n_best == 0 || n_tried >= candidates.size()) {
        return false;
    }
    best.resize(n_tried);
    std::partial_sort_copy(candidates.begin(), candidates.end(), best.begin(), best.end(), [](const llama_token_data & a, const llama_token_data & b) {
        return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
    });
    const float least = best.back().logit;
    grammar->filter(best);
    if (best.size() < n_best) {
        return false;
    }
    best.resize(n_best);
    const auto are_equal = [](const llama_token_data & a, const llama_token_data & b) { return a.logit == b.logit; };
    return n_best == 1 || (best.back().logit > least && std::adjacent_find(best.begin(), best.end(), are_equal) == best.end());
}

void check_grammar(const Model & model, const std::string & gbnf) {
    if (!gbnf.empty()) {
        const Grammar grammar(model, gbnf);
    }
}

std::string describe(GrammarEnd end, int32_t slot) {
    const std::string where = " of slot " + std::to_string(slot);
    switch (end) {
        case GrammarEnd::NothingFits: return "No token of the model fits the grammar" + where + " where its text has come to.";
        case GrammarEnd::NoState: return "The grammar" + where + " allowed a token that crosses into a rule for a whole token; llama.cpp cannot go on from there.";
        case GrammarEnd::TooSlow:
            return "The grammar" + where + " can read its text in so many ways that llama.cpp takes over 0.3 s for a token.";
        default: return "";
    }
}

bool StopScanner::append(std::string & text, const std::string & piece) const {
    const size_t before = text.size();
    text += piece;
    size_t first = std::string::npos;
    for (const std::string & stop : stops) {
        // A stop string that was complete earlier would have ended the text: only ends in the new piece count.
        const size_t from = before >= stop.size() ? before - stop.size() + 1 : 0;
        first             = std::min(first, stop.empty() ? std::string::npos : text.find(stop, from));
    }
    if (first == std::string::npos) {
        return false;
    }
    text.resize(first);
    return true;
}

}  // namespace draftscope
