#include "recurrent_state.h"

#include "llama_api.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace draftscope {

namespace {

constexpr size_t header_bytes = 8;    // magic and sequence id

class Reader {
public:
    explicit Reader(std::span<const uint8_t> bytes_) : bytes(bytes_) {}

    template <typename T> T take() {
        T value{};
        if (is_good && bytes.size() - place >= sizeof value) {
            std::memcpy(&value, bytes.data() + place, sizeof value);
            place += sizeof value;
        } else {
            is_good = false;
        }
        return value;
    }

    void skip(size_t n) {
        is_good = is_good && bytes.size() - place >= n;
        place += is_good ? n : 0;
    }

    bool is_at_end() const { return place == bytes.size(); }

    std::span<const uint8_t> bytes;
    size_t                   place   = 0;
    bool                     is_good = true;
};

std::optional<std::vector<float>> floats_of(std::span<const uint8_t> bytes, const StatePart & part) {
    const auto              type = static_cast<ggml_type>(part.type);
    std::vector<float>      values;
    const ggml_type_traits * traits = ggml_get_type_traits(type);
    if (type == GGML_TYPE_F32) {
        values.resize(part.n_bytes / sizeof(float));
        std::memcpy(values.data(), bytes.data() + part.offset, values.size() * sizeof(float));
    } else if (traits->to_float != nullptr && traits->blck_size == 1) {
        values.resize(part.n_bytes / traits->type_size);
        traits->to_float(bytes.data() + part.offset, values.data(), static_cast<int64_t>(values.size()));
    } else {
        return std::nullopt;
    }
    return values;
}

PartDifference compare(std::span<const uint8_t> left, const StatePart & a, std::span<const uint8_t> right, const StatePart & b) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    if (a.type != b.type || a.n_bytes != b.n_bytes) {
        return {false, nan, nan, nan};
    }
    if (std::memcmp(left.data() + a.offset, right.data() + b.offset, a.n_bytes) == 0) {
        return {true, 0, 0, 0};
    }
    const auto x = floats_of(left, a), y = floats_of(right, b);
    if (!x.has_value() || !y.has_value()) {
        return {false, nan, nan, nan};
    }
    double largest = 0, sum = 0, largest_value = 0;
    for (size_t i = 0; i < x->size(); i++) {
        const double d = static_cast<double>((*x)[i]) - static_cast<double>((*y)[i]);
        largest        = std::isnan(d) ? nan : std::max(largest, std::abs(d));
        largest_value  = std::max({largest_value, std::abs(static_cast<double>((*x)[i])), std::abs(static_cast<double>((*y)[i]))});
        sum += d * d;
    }
    return {false, largest, std::sqrt(sum / static_cast<double>(x->size())), largest_value};
}

}  // namespace

std::optional<StateLayout> read_layout(std::span<const uint8_t> bytes) {
    Reader reader(bytes);
    reader.skip(header_bytes);
    const auto n_cells = reader.take<uint32_t>();
    for (uint32_t i = 0; i < n_cells && reader.is_good; i++) {
        reader.take<int32_t>();    // position
        reader.is_good = reader.take<uint32_t>() == 0 && reader.is_good;    // of one sequence no others are told
    }
    const bool is_plain = reader.take<uint32_t>() == 0;    // else transposed
    const auto n_layer  = reader.take<uint32_t>();
    std::vector<StatePart> parts;
    while (reader.is_good && is_plain && !reader.is_at_end()) {
        StatePart  part;
        part.type            = reader.take<int32_t>();
        const auto row_bytes = reader.take<uint64_t>();
        part.offset          = reader.place;
        const bool fits      = row_bytes > 0 && n_cells > 0 && row_bytes <= bytes.size() / n_cells;
        part.n_bytes         = fits ? row_bytes * n_cells : 0;
        reader.is_good       = reader.is_good && fits && part.type >= 0 && part.type < GGML_TYPE_COUNT;
        reader.skip(part.n_bytes);
        parts.push_back(part);
    }
    if (!reader.is_good || !is_plain || parts.empty() || parts.size() % 2 != 0 || parts.size() / 2 > n_layer) {
        return std::nullopt;
    }
    const auto middle = parts.begin() + static_cast<ptrdiff_t>(parts.size() / 2);
    return StateLayout{{parts.begin(), middle}, {middle, parts.end()}};
}

std::optional<std::vector<LayerDifference>> compare_states(std::span<const uint8_t> left, std::span<const uint8_t> right) {
    const auto a = read_layout(left), b = read_layout(right);
    if (!a.has_value() || !b.has_value() || a->conv.size() != b->conv.size()) {
        return std::nullopt;
    }
    std::vector<LayerDifference> layers;
    for (size_t i = 0; i < a->conv.size(); i++) {
        layers.push_back({compare(left, a->conv[i], right, b->conv[i]), compare(left, a->delta[i], right, b->delta[i])});
    }
    return layers;
}

bool are_equal(const std::vector<LayerDifference> & layers) {
    return std::all_of(layers.begin(), layers.end(), [](const LayerDifference & layer) { return layer.conv.is_equal && layer.delta.is_equal; });
}

double largest(const std::vector<LayerDifference> & layers) {
    double most = 0;
    for (const LayerDifference & layer : layers) {
        for (const double value : {layer.conv.max_abs, layer.delta.max_abs}) {
            most = std::isnan(value) || value > most ? value : most;
        }
    }
    return most;
}

bool is_within_rounding(const PartDifference & part, double scatter) {
    constexpr double half_step = 1.0 / 1024;    // between neighbours in half precision, as a share of them
    return part.max_abs <= std::max(scatter, half_step * part.largest);
}

std::vector<uint8_t> recurrent_part(std::span<const uint8_t> whole, size_t n_partial) {
    if (n_partial < header_bytes || whole.size() < n_partial) {
        return {};
    }
    std::vector<uint8_t> part(whole.begin(), whole.begin() + header_bytes);
    const auto           end = whole.last(n_partial - header_bytes);
    part.insert(part.end(), end.begin(), end.end());
    return part;
}

std::vector<uint8_t> with_layer_of(std::span<const uint8_t> left, std::span<const uint8_t> right, int32_t layer) {
    const auto a = read_layout(left), b = read_layout(right);
    if (!a.has_value() || !b.has_value() || a->conv.size() != b->conv.size()) {
        return {};
    }
    const size_t i = layer < 0 ? a->conv.size() - 1 : static_cast<size_t>(layer);
    if (i >= a->conv.size() || a->conv[i].n_bytes != b->conv[i].n_bytes || a->delta[i].n_bytes != b->delta[i].n_bytes) {
        return {};
    }
    std::vector<uint8_t> mixed(right.begin(), right.end());
    std::memcpy(mixed.data() + b->conv[i].offset, left.data() + a->conv[i].offset, a->conv[i].n_bytes);
    std::memcpy(mixed.data() + b->delta[i].offset, left.data() + a->delta[i].offset, a->delta[i].n_bytes);
    return mixed;
}

}  // namespace draftscope
