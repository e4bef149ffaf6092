// Sampling through libllama's chain, and what the engine itself asks of logits.
#pragma once

#include "model.h"

#include <cstdint>
#include <string>
#include <vector>

namespace draftscope {

class Sampler {
public:
    // The chain: bans, penalties, top-k, top-p, min-p, temperature, choice; greedy at temperature 0 (and below 1e-10).
    // Settings that switch a sampler off leave it out. With the same seed, the n-th token takes the n-th random number, drafted or not.
    Sampler(const Model & model, const SamplingSettings & settings, bool ignore_eos);

    // Let penalties know of a prompt token.
    void accept(int32_t token) { llama_sampler_accept(chain.get(), token); }

    // Choose from the logits of an output of the last decode, and accept the choice.
    int32_t sample(llama_context * ctx, int32_t index);

private:
    SamplerPtr           chain;
    bool                 is_greedy = false;    // nothing but bans stands before the most probable token
    int32_t              n_vocab   = 0;
    std::vector<int32_t> banned;               // sorted
};

// Finds stop strings in text that grows.
class StopScanner {
public:
    explicit StopScanner(std::vector<std::string> stops_) : stops(std::move(stops_)) {}

    // Append a piece. True when a stop string is complete: text then ends before it.
    bool append(std::string & text, const std::string & piece) const;

private:
    std::vector<std::string> stops;
};

}  // namespace draftscope
