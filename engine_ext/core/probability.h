// What the engine itself asks of logits. Compiled apart with fast floating-point rules: these loops run over the whole
// vocabulary for every drafted token, and the vector form is several times quicker. Nothing is sampled from them.
#pragma once

#include <cstdint>

namespace draftscope {

struct Candidate {
    int32_t token;
    float   probability;    // softmax over all logits, temperature 1
};

// The most probable token (the first of equals), and its probability. n_vocab floats, borrowed; finite.
int32_t   most_probable_token(const float * logits, int32_t n_vocab);
Candidate most_probable(const float * logits, int32_t n_vocab);

float probability_of(const float * logits, int32_t n_vocab, int32_t token);

}  // namespace draftscope
