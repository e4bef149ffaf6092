#include "probability.h"

#include <algorithm>
#include <cmath>

namespace draftscope {

namespace {

float sum_of_exp(const float * logits, int32_t n_vocab, float max) {
    float sum = 0.0f;
    for (int32_t i = 0; i < n_vocab; i++) {
        sum += std::exp(logits[i] - max);
    }
    return sum;
}

float max_of(const float * logits, int32_t n_vocab) {
    float max = logits[0];
    for (int32_t i = 1; i < n_vocab; i++) {
        max = std::max(max, logits[i]);
    }
    return max;
}

}  // namespace

int32_t most_probable_token(const float * logits, int32_t n_vocab) {
    const float max = max_of(logits, n_vocab);
    return std::min(static_cast<int32_t>(std::find(logits, logits + n_vocab, max) - logits), n_vocab - 1);
}

Candidate most_probable(const float * logits, int32_t n_vocab) {
    const int32_t token = most_probable_token(logits, n_vocab);
    return {token, 1.0f / sum_of_exp(logits, n_vocab, logits[token])};
}

float probability_of(const float * logits, int32_t n_vocab, int32_t token) {
    const float max = max_of(logits, n_vocab);
    return std::exp(logits[token] - max) / sum_of_exp(logits, n_vocab, max);
}

}  // namespace draftscope
