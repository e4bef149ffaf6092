// Questions of the tests: how libllama's bytes of a recurrent state are read.
#include "recurrent_state.h"
#include "register.h"

#include <nanobind/stl/optional.h>

namespace nb = nanobind;

namespace draftscope::bind {

namespace {

std::span<const uint8_t> span_of(const nb::bytes & bytes) {
    return {static_cast<const uint8_t *>(bytes.data()), bytes.size()};
}

std::optional<nb::list> compare(const nb::bytes & left, const nb::bytes & right) {
    const auto layers = compare_states(span_of(left), span_of(right));
    if (!layers.has_value()) {
        return std::nullopt;
    }
    nb::list list;
    for (const LayerDifference & layer : *layers) {
        for (const PartDifference & part : {layer.conv, layer.delta}) {
            list.append(nb::make_tuple(part.is_equal, part.max_abs, part.rms));
        }
    }
    return list;
}

}  // namespace

void register_states(nb::module_ & m) {
    m.def("compare_states", &compare, nb::arg("left"), nb::arg("right"),
          "(is equal, max |d|, rms) of the conv part, then of the delta-net part, layer by layer; None for an unknown layout.");
}

}  // namespace draftscope::bind
