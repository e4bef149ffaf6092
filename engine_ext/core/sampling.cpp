#include "sampling.h"

#include "probability.h"

#include <algorithm>
#include <limits>

namespace draftscope {

namespace {

// Logits divided by less than this may overflow, and the choice among infinities is none. Unequal logits differ by far
// more, so the most probable token would be chosen anyway.
constexpr float coldest = 1e-10f;

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

Sampler::Sampler(const Model & model, const SamplingSettings & settings, bool ignore_eos)
    : chain(llama_sampler_chain_init({/*.no_perf =*/true})), n_vocab(model.n_vocab()), banned(banned_tokens(model, ignore_eos)) {
    const auto add = [this](llama_sampler * sampler) { llama_sampler_chain_add(chain.get(), sampler); };
    if (!banned.empty()) {
        std::vector<llama_logit_bias> biases;
        for (const int32_t token : banned) {
            biases.push_back({token, -std::numeric_limits<float>::infinity()});
        }
        add(llama_sampler_init_logit_bias(n_vocab, static_cast<int32_t>(biases.size()), biases.data()));
    }
    const bool penalizes = settings.repeat_last_n != 0 && (settings.repeat_penalty != 1.0f || settings.presence_penalty != 0.0f);
    is_greedy            = !penalizes && settings.temperature < coldest;
    if (penalizes) {
        add(llama_sampler_init_penalties(model.n_vocab(), settings.repeat_last_n, settings.repeat_penalty, 0.0f, settings.presence_penalty));
    }
    if (settings.temperature < coldest) {
        add(llama_sampler_init_greedy());
        return;
    }
    if (settings.top_k > 0) {
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

// Most greedy choices need no list of all candidates, which libllama's chain would make and search.
int32_t Sampler::sample(llama_context * ctx, int32_t index) {
    if (is_greedy) {
        const int32_t token = most_probable_token(llama_get_logits_ith(ctx, index), n_vocab);
        if (!std::binary_search(banned.begin(), banned.end(), token)) {
            return token;
        }
    }
    return llama_sampler_sample(chain.get(), ctx, index);
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
