// How rows and draft distributions differ: what a probe reports of them.
#pragma once

#include "probe_records.h"

#include <span>
#include <vector>

namespace draftscope {

struct RowDifference {
    int32_t n_differing = 0;    // dimensions, bit for bit
    int32_t worst       = -1;    // the one that differs most; -1: none does
    double  max_abs = 0, rms = 0, cosine = 0;    // cosine is NaN where a row is zero
};

// Rows of equal width.
RowDifference compare_rows(std::span<const float> saved, std::span<const float> other);

// Softmax at temperature 1.
class Distribution {
public:
    explicit Distribution(std::span<const float> logits_);

    double  probability(int32_t token) const;
    int32_t top() const { return best; }
    // The n likeliest tokens, the likeliest first.
    std::vector<int32_t> likeliest(size_t n) const;

    std::span<const float> logits;    // borrowed

private:
    int32_t best     = -1;
    double  log_norm = 0;
    friend double kl_divergence(const Distribution & from, const Distribution & to);
};

// Of `to` from `from`, in nats.
double kl_divergence(const Distribution & from, const Distribution & to);

struct LogitDifference {
    int32_t n_changed = 0;    // bit for bit
    double  max_abs   = 0;
};
LogitDifference compare_logits(std::span<const float> saved, std::span<const float> other);

}  // namespace draftscope
