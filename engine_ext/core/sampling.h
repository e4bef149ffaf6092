// Sampling through libllama's chain, and what the engine itself asks of logits.
#pragma once

#include "grammar.h"
#include "model.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace draftscope {

constexpr int32_t no_token = -1;

// Why nothing was sampled: the grammar has come to its end, allows no token of the vocabulary, has no state any more, or has so
// many that libllama takes too long (each way in which the text can be read is one, and each token can multiply them).
enum class GrammarEnd : uint8_t { None, Complete, NothingFits, NoState, TooSlow };

class Sampler {
public:
    // The chain: bans, penalties, top-k, top-p, min-p, temperature, choice; greedy at temperature 0 (and below 1e-10). Settings
    // that switch a sampler off leave it out. What a grammar does not allow is left out in front of top-k. With the same seed,
    // the n-th token takes the n-th random number, drafted or not. Throws what Grammar throws.
    Sampler(const Model & model, const Task & task);

    // Let penalties know of a prompt token. The grammar begins behind the prompt.
    void accept(int32_t token);

    // Choose from the logits of an output of the last decode, and accept the choice. `no_token` where the grammar leaves none,
    // which `grammar_end` explains; nothing may be sampled after that.
    int32_t sample(llama_context * ctx, int32_t index);
    int32_t sample(const float * logits);    // of an earlier decode, by token id

    GrammarEnd grammar_end() const { return grammar_end_; }

private:
    void add_bans();
    void add_penalties(const SamplingSettings & settings);
    void add_choice(const SamplingSettings & settings);
    int32_t sample_allowed(const float * logits);
    int32_t choose_allowed(const float * logits);
    bool try_most_probable();
    bool accept_choice(int32_t token);

    SamplerPtr             chain;
    std::optional<Grammar> grammar;
    SamplerPtr             penalties;    // with a grammar: applied before it, to all candidates
    Grammar::Candidates    candidates, best;
    bool                   is_greedy = false;    // nothing but bans and the grammar stands before the most probable token
    size_t                 n_best    = 0;        // the chain chooses among the so many most probable; 0: among all
    int32_t                n_vocab   = 0;
    std::vector<int32_t>   banned;               // sorted
    GrammarEnd             grammar_end_ = GrammarEnd::None;
};

// Throws EngineError(bad_grammar) for a grammar that no task can have; "" is none.
void check_grammar(const Model & model, const std::string & gbnf);

// What became of a task whose sampler found no token, as a sentence; empty where its end is as it should be.
std::string describe(GrammarEnd end, int32_t slot);

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
