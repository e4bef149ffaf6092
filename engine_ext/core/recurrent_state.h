// libllama's bytes of a recurrent state, read apart: which layers there are, and how two states differ in each. Read
// defensively; what is not laid out as the pinned version does is an unknown layout, never a wrong figure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace draftscope {

// One tensor of one layer: where its bytes are, and their ggml type.
struct StatePart {
    int32_t type   = 0;
    size_t  offset = 0, n_bytes = 0;
};

// By recurrent layer, in the order of the model: the convolution's state and the delta-net's.
struct StateLayout {
    std::vector<StatePart> conv, delta;
};

// bytes: what libllama's host PARTIAL_ONLY gives of one sequence.
std::optional<StateLayout> read_layout(std::span<const uint8_t> bytes);

struct PartDifference {
    bool   is_equal = false;    // bit for bit
    double max_abs = 0, rms = 0;    // NaN where the type cannot be computed with or the sizes differ
    double largest = 0;    // |value| of either; 0 where they are equal
};

// Of a layer's two parts.
struct LayerDifference {
    PartDifference conv, delta;
};

// None: one of the two has an unknown layout, or they have other layers.
std::optional<std::vector<LayerDifference>> compare_states(std::span<const uint8_t> left, std::span<const uint8_t> right);

bool   are_equal(const std::vector<LayerDifference> & layers);
double largest(const std::vector<LayerDifference> & layers);    // max_abs of any part; NaN where one is

// Whether a part differs by no more than `scatter`, or than a step of half precision of its largest value. ggml rounds the rows
// that F16 matrices are multiplied with to half precision: a value that another batch shape leaves on the other side of a
// rounding boundary moves by such a step, and what is computed from it as well. Measured on a random qwen3next: up to 5e-4 with
// F16 matrices, 6e-6 with F32, nothing with Q8_0. States of other tokens are as far apart as they are large.
bool is_within_rounding(const PartDifference & part, double scatter);

// The end of `whole`, libllama's state of a sequence with keys and values, which is laid out as `partial` is: as bytes of
// a PARTIAL_ONLY state. Empty where it cannot be.
std::vector<uint8_t> recurrent_part(std::span<const uint8_t> whole, size_t n_partial);

// `right` with one layer of `left`. Empty: unknown layout, or no such layer. layer -1: the last.
std::vector<uint8_t> with_layer_of(std::span<const uint8_t> left, std::span<const uint8_t> right, int32_t layer);

}  // namespace draftscope
