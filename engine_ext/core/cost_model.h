// What decodes and saves cost, learned while the engine runs; and the decision that rests on it: where the tokens that a
// restore took away are decoded again. Engine thread only.
//
// A target decode of n tokens that libllama cuts into g graphs takes graph_ns * g + token_ns * n.
#pragma once

#include "settings.h"

#include <cstdint>
#include <span>
#include <vector>

namespace draftscope {

class CostModel {
public:
    void learn_decode(int64_t n_graphs, int64_t n_tokens, int64_t duration_ns);
    void learn_save(int64_t duration_ns);
    void learn_yield(int32_t n_tokens, int64_t duration_ns);    // of a round, all slots together
    void learn_round(bool is_rejected);    // of one slot: whether a part of its draft was

    // Whether decodes of different enough sizes were seen to tell the two costs apart.
    bool is_known() const { return known; }
    double  graph_ns() const { return graph; }
    double  token_ns() const { return token; }
    double  save_ns() const { return save; }
    double  yield_ns() const { return per_token; }    // that a round took for each token it yielded
    double  rejected_share() const { return rejected; }
    int64_t n_decodes() const { return n; }

private:
    void solve();

    int64_t n = 0;
    // Sums for least squares on g and n, each decode weighted by its age and by 1 / (expected time)^2.
    double  gg = 0, gn = 0, nn = 0, gt = 0, nt = 0;
    double  graph = 0, token = 0, save = 0, rejected = 0.5, per_token = 0;
    bool    known = false;
};

// Tokens that a slot brings to a decode.
struct Rows {
    int32_t slot;
    int32_t n;
};

// Graphs into which libllama cuts a decode of a recurrent model: each takes equally many tokens of its slots, and where
// every slot has keys of its own (is_sequential) only of slots with consecutive numbers. Rows in the order of slots.
int32_t count_graphs(std::span<const Rows> rows, bool is_sequential);

// A slot before a verification: tokens to replay, and tokens that it verifies (the sampled one and its draft).
struct Waiting {
    int32_t slot;
    int32_t n_replay;
    int32_t n_verify;
};

// The longest replay that rides in front of a verification may have this many tokens, by whatever policy: it bounds a batch.
constexpr int32_t max_riding_replay = 8;

// Replays of at most so many tokens ride in the next verification, longer ones are decoded alone before it, together with
// the sampled token, and yield a token. Riding saves a graph run (not where it makes slots unequal) and a save; but a replay
// that rode is carried again after the next rejection. Until costs are known none rides, which was never far from the best.
int32_t choose_riding_limit(std::span<const Waiting> slots, const CostModel & costs, ReplayPolicy policy, bool is_sequential);

}  // namespace draftscope
