#include "differences.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace draftscope {

namespace {

bool same_bits(float a, float b) {
    return std::memcmp(&a, &b, sizeof a) == 0;
}

}  // namespace

RowDifference compare_rows(std::span<const float> saved, std::span<const float> other) {
    RowDifference found;
    double        sum = 0, dot = 0, of_saved = 0, of_other = 0;
    for (size_t i = 0; i < saved.size(); i++) {
        const double a = static_cast<double>(saved[i]), b = static_cast<double>(other[i]), d = std::abs(a - b);
        dot += a * b;
        of_saved += a * a;
        of_other += b * b;
        if (same_bits(saved[i], other[i])) {
            continue;
        }
        found.n_differing++;
        sum += d * d;
        if (found.worst < 0 || d > found.max_abs || std::isnan(d)) {
            found.worst   = static_cast<int32_t>(i);
            found.max_abs = d;
        }
    }
    found.rms    = std::sqrt(sum / static_cast<double>(std::max<size_t>(1, saved.size())));
    found.cosine = dot / std::sqrt(of_saved * of_other);    // 0 / 0 where one is zero
    return found;
}

Distribution::Distribution(std::span<const float> logits_) : logits(logits_) {
    const auto most = std::max_element(logits.begin(), logits.end());
    best            = static_cast<int32_t>(most - logits.begin());
    double sum      = 0;
    for (const float logit : logits) {
        sum += static_cast<double>(std::exp(logit - *most));
    }
    log_norm = static_cast<double>(*most) + std::log(sum);
}

double Distribution::probability(int32_t token) const {
    return std::exp(static_cast<double>(logits[static_cast<size_t>(token)]) - log_norm);
}

std::vector<int32_t> Distribution::likeliest(size_t n) const {
    std::vector<int32_t> tokens(logits.size());
    std::iota(tokens.begin(), tokens.end(), 0);
    n = std::min(n, tokens.size());
    std::partial_sort(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(n), tokens.end(),
                      [this](int32_t a, int32_t b) { return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)]; });
    tokens.resize(n);
    return tokens;
}

double kl_divergence(const Distribution & from, const Distribution & to) {
    double sum = 0;
    for (size_t i = 0; i < from.logits.size(); i++) {
        const double log_p = static_cast<double>(from.logits[i]) - from.log_norm, log_q = static_cast<double>(to.logits[i]) - to.log_norm;
        sum += static_cast<double>(std::exp(static_cast<float>(log_p))) * (log_p - log_q);
    }
    return std::max(0.0, sum);    // rounding may leave it a little below
}

LogitDifference compare_logits(std::span<const float> saved, std::span<const float> other) {
    LogitDifference found;
    for (size_t i = 0; i < saved.size(); i++) {
        if (!same_bits(saved[i], other[i])) {
            found.n_changed++;
            found.max_abs = std::max(found.max_abs, std::abs(static_cast<double>(saved[i]) - static_cast<double>(other[i])));
        }
    }
    return found;
}

}  // namespace draftscope
