#include "cost_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace draftscope {

namespace {

constexpr double  memory        = 0.99;    // weight of a decode after the next one
constexpr double  smoothing     = 0.05;    // of running means
constexpr double  outlier       = 4.0;     // times the expected duration: nothing takes longer, whatever was measured
constexpr double  disturbed     = 1.5;     // times the expected duration: something else had the processor for a while
constexpr double  doubt         = 0.1;     // weight of a disturbed decode
constexpr int64_t n_needed      = 8;
constexpr double  most_rejected = 0.95;    // of rounds, for what is divided by the rest

}  // namespace

void CostModel::learn_decode(int64_t n_graphs, int64_t n_tokens, int64_t duration_ns) {
    const auto   g = static_cast<double>(n_graphs), t = static_cast<double>(n_tokens);
    double       duration = static_cast<double>(duration_ns);
    const double expected = graph * g + token * t;
    if (known) {
        duration = std::min(duration, outlier * expected);
    }
    const double scale  = known && expected > 0 ? expected : duration;
    const double belief = known && duration > disturbed * expected ? doubt : 1.0;
    const double weight = scale > 0 ? belief / (scale * scale) : 0.0;
    gg = memory * gg + weight * g * g;
    gn = memory * gn + weight * g * t;
    nn = memory * nn + weight * t * t;
    gt = memory * gt + weight * g * duration;
    nt = memory * nt + weight * t * duration;
    n++;
    solve();
}

void CostModel::solve() {
    const double determinant = gg * nn - gn * gn;
    // Decodes of one size only leave the two costs undetermined: what was known before them stays.
    if (n < n_needed || determinant <= 1e-3 * gg * nn) {
        return;
    }
    known = true;
    graph = (nn * gt - gn * nt) / determinant;
    token = (gg * nt - gn * gt) / determinant;
    if (graph < 0) {
        graph = 0;
        token = nt / nn;
    } else if (token < 0) {
        token = 0;
        graph = gt / gg;
    }
}

void CostModel::learn_save(int64_t duration_ns) {
    const auto duration = static_cast<double>(duration_ns);
    save                = save == 0 ? duration : save + smoothing * (std::min(duration, outlier * save) - save);
}

void CostModel::learn_yield(int32_t n_tokens, int64_t duration_ns) {
    if (n_tokens > 0) {
        const double duration = static_cast<double>(duration_ns) / n_tokens;
        per_token             = per_token == 0 ? duration : per_token + smoothing * (std::min(duration, outlier * per_token) - per_token);
    }
}

void CostModel::learn_round(bool is_rejected) {
    rejected += smoothing * ((is_rejected ? 1.0 : 0.0) - rejected);
}

int32_t count_graphs(std::span<const Rows> rows, bool is_sequential) {
    std::vector<Rows> left(rows.begin(), rows.end());
    std::erase_if(left, [](const Rows & row) { return row.n <= 0; });
    int32_t n_graphs = 0;
    for (; !left.empty(); n_graphs++) {
        size_t  n_slots = 1;
        int32_t least   = left[0].n;
        while (n_slots < left.size() && (!is_sequential || left[n_slots].slot == left[n_slots - 1].slot + 1)) {
            least = std::min(least, left[n_slots++].n);
        }
        for (size_t i = 0; i < n_slots; i++) {
            left[i].n -= least;
        }
        std::erase_if(left, [](const Rows & row) { return row.n == 0; });
    }
    return n_graphs;
}

namespace {

double cost_of(int32_t limit, std::span<const Waiting> slots, const CostModel & costs, bool is_sequential) {
    std::vector<Rows> alone, verify;
    double            cost = 0;
    // A replay that rides is carried again after each rejection until a draft is accepted whole.
    const double n_carried = costs.rejected_share() / (1.0 - std::min(costs.rejected_share(), most_rejected));
    for (const Waiting & slot : slots) {
        const bool rides = slot.n_replay <= limit;
        verify.push_back({slot.slot, slot.n_verify + (rides ? slot.n_replay : 0)});
        if (rides) {
            cost += n_carried * costs.token_ns() * slot.n_replay;
        } else {
            alone.push_back({slot.slot, slot.n_replay + 1});
            cost += costs.save_ns() + costs.token_ns() - costs.yield_ns();
        }
    }
    return cost + costs.graph_ns() * (count_graphs(alone, is_sequential) + count_graphs(verify, is_sequential));
}

}  // namespace

int32_t choose_riding_limit(std::span<const Waiting> slots, const CostModel & costs, ReplayPolicy policy, bool is_sequential) {
    if (policy != ReplayPolicy::Measured) {
        return policy == ReplayPolicy::Ride ? max_riding_replay : 0;
    }
    if (!costs.is_known()) {
        return 0;
    }
    int32_t best      = 0;
    double  best_cost = std::numeric_limits<double>::infinity();
    for (int32_t limit = 0; limit <= max_riding_replay; limit++) {
        const bool is_a_choice = limit == 0 || std::any_of(slots.begin(), slots.end(), [limit](const Waiting & slot) { return slot.n_replay == limit; });
        if (!is_a_choice) {
            continue;
        }
        if (const double cost = cost_of(limit, slots, costs, is_sequential); cost < best_cost) {
            best      = limit;
            best_cost = cost;
        }
    }
    return best;
}

}  // namespace draftscope
