#include "grammar.h"

#include "error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>

namespace draftscope {

namespace {

constexpr int32_t n_ascii = 128;

// Fewer candidates than this are asked about one by one: 128 first characters would cost more.
constexpr size_t few = 512;

}  // namespace

Grammar::Grammar(const Model & model_, const std::string & gbnf) : model(&model_) {
    if (!model_.has_tokenizer()) {
        throw EngineError("bad_grammar", "This model file has no tokenizer, so a grammar cannot be matched with its tokens.", "Generate without a grammar.");
    }
    sampler.reset(llama_sampler_init_grammar(model_.vocab(), gbnf.c_str(), "root"));
    if (sampler == nullptr) {
        throw EngineError("bad_grammar", "llama.cpp does not accept the grammar.",
                          "Where it names tokens, such as <|name|>, each must be one token of this model; the log has what llama.cpp read.");
    }
    names_tokens = gbnf.find('<') != std::string::npos;
    for (int32_t token = 0; end_token < 0 && token < model_.n_vocab(); token++) {
        end_token = llama_vocab_is_eog(model_.vocab(), token) ? token : -1;
    }
}

void Grammar::keep_allowed(Candidates & candidates) {
    if (candidates.empty()) {
        return;
    }
    std::vector<float> logits;
    logits.reserve(candidates.size());
    for (llama_token_data & candidate : candidates) {
        logits.push_back(candidate.logit);
        candidate.logit = 0.0f;
    }
    llama_token_data_array array{candidates.data(), candidates.size(), -1, false};
    llama_sampler_apply(sampler.get(), &array);
    size_t n = 0;
    for (size_t i = 0; i < candidates.size(); i++) {
        if (!std::isinf(candidates[i].logit)) {
            candidates[n]         = candidates[i];
            candidates[n++].logit = logits[i];
        }
    }
    candidates.resize(n);
}

void Grammar::learn_first_bytes(const Model & m) {
    alone.assign(n_ascii, -1);
    first_byte.assign(static_cast<size_t>(m.n_vocab()), 0);
    for (int32_t token = 0; token < m.n_vocab(); token++) {
        const std::string piece = m.piece(token, true);
        const auto        byte  = static_cast<uint8_t>(piece.empty() ? 0 : piece[0]);
        if (byte == 0 || byte >= n_ascii || llama_vocab_is_eog(m.vocab(), token)) {
            continue;
        }
        first_byte[static_cast<size_t>(token)] = byte;
        if (piece.size() == 1) {
            alone[byte] = token;
        }
    }
}

void Grammar::filter(Candidates & candidates) {
    if (candidates.size() > few && !names_tokens) {
        if (first_byte.empty()) {
            learn_first_bytes(*model);
        }
        Candidates probes;
        for (const int32_t token : alone) {
            if (token >= 0) {
                probes.push_back({token, 0.0f, 0.0f});
            }
        }
        std::array<bool, n_ascii> is_open{};
        for (size_t byte = 0; byte < n_ascii; byte++) {
            is_open[byte] = alone[byte] < 0;    // not known
        }
        keep_allowed(probes);
        for (const llama_token_data & probe : probes) {
            is_open[first_byte[static_cast<size_t>(probe.id)]] = true;
        }
        std::erase_if(candidates, [&](const llama_token_data & candidate) { return !is_open[first_byte[static_cast<size_t>(candidate.id)]]; });
    }
    keep_allowed(candidates);
}

bool Grammar::allows(int32_t token) {
    Candidates one{{token, 0.0f, 0.0f}};
    keep_allowed(one);
    return !one.empty();
}

bool Grammar::may_end() {
    return end_token < 0 || allows(end_token);
}

bool Grammar::accept(int32_t token) {
    if (is_spent) {
        return false;
    }
    try {
        llama_sampler_accept(sampler.get(), token);
    } catch (const std::exception &) {    // libllama throws, through its C interface, when no state is left
        is_spent = true;
    }
    return !is_spent;
}

}  // namespace draftscope
