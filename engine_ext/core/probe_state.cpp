// The part of a probe that compares recurrent states.
#include "probe.h"

#include <algorithm>
#include <cmath>

namespace draftscope {

void Probe::compare_recurrent(ProbeResult & result, const Slot & slot, std::span<const uint8_t> state) {
    if (!contexts.model.is_recurrent()) {
        result.state_status = StateStatus::NoRecurrentLayers;
        return;
    }
    const int64_t  t_start = now_ns();
    const OfSlot & of      = at(slot.id);
    contexts.recorder.operation(Phase::Probe);
    const std::vector<uint8_t> after = contexts.companion.save_state(slot.id, Companion::Place::Host);
    result.state_bytes               = static_cast<int64_t>(after.size());
    if (!state.empty()) {
        compare_saved(result, recurrent_part(state, after.size()), after);
    } else if (!of.state.empty() && of.position == slot.n_decoded) {
        compare_saved(result, of.state, after);
    } else {
        compare_anew(result, slot, after);
    }
    contexts.recorder.span(Phase::Probe, slot.id, t_start, slot.n_decoded, 0, 0);
}

void Probe::compare_saved(ProbeResult & result, std::span<const uint8_t> saved, std::span<const uint8_t> after) {
    if (const auto layers = compare_states(saved, after); saved.empty() || after.empty()) {
        result.state_status = StateStatus::NoReference;
    } else if (layers.has_value()) {
        fill(result, *layers);
    } else {
        result.state_status = StateStatus::UnknownLayout;
    }
}

// The slot went further than what was noted before the verification: the tokens between are decoded anew elsewhere. Kernels
// round by how many rows there are, so this is done in three ways, and what they differ by is known.
void Probe::compare_anew(ProbeResult & result, const Slot & slot, std::span<const uint8_t> after) {
    const OfSlot &       of = at(slot.id);
    std::vector<uint8_t> whole, of_draft;
    result.state_status = StateStatus::NoReference;
    if (of.state.empty() || after.empty() || of.position > slot.n_decoded || !contexts.companion.save_whole(slot.id, whole, of_draft)) {
        return;
    }
    const auto first  = static_cast<size_t>(of.position);
    const auto tokens = std::span(slot.tokens).subspan(first, static_cast<size_t>(slot.n_decoded) - first);
    std::vector<std::vector<uint8_t>>           anew;
    std::optional<std::vector<LayerDifference>> nearest;
    for (const ReferenceContext::How how : {ReferenceContext::How::Together, ReferenceContext::How::Twice, ReferenceContext::How::OneByOne}) {
        anew.push_back(reference.state_after(whole, of.state, of.position, tokens, how));
        if (anew.back().empty()) {
            return;
        }
        const auto layers = compare_states(anew.back(), after);
        if (!layers.has_value()) {
            result.state_status = StateStatus::UnknownLayout;
            return;
        }
        if (!nearest.has_value() || largest(*layers) < largest(*nearest)) {
            nearest = layers;
        }
        if (are_equal(*layers)) {
            fill(result, *layers);
            return;
        }
    }
    result.state_scatter = 0;
    for (size_t i = 0; i < anew.size(); i++) {
        for (size_t j = i + 1; j < anew.size(); j++) {
            result.state_scatter = std::max(result.state_scatter, largest(compare_states(anew[i], anew[j]).value_or(std::vector<LayerDifference>())));
        }
    }
    fill(result, *nearest, result.state_scatter);
}

// scatter: of what is compared, differences that may be rounding; none: every bit counts.
void Probe::fill(ProbeResult & result, const std::vector<LayerDifference> & layers, std::optional<double> scatter) {
    const auto is_same = [scatter](const PartDifference & part) { return part.is_equal || (scatter.has_value() && is_within_rounding(part, *scatter)); };
    std::vector<double> values;
    double              sum = 0;
    int32_t             n_parts = 0;
    result.n_layers           = static_cast<int32_t>(layers.size());
    result.n_layers_differing = 0;
    result.state_max_abs = result.state_rms = 0;
    for (size_t i = 0; i < layers.size(); i++) {
        result.n_layers_differing += is_same(layers[i].conv) && is_same(layers[i].delta) ? 0 : 1;
        for (const PartDifference * part : {&layers[i].conv, &layers[i].delta}) {
            if (!part->is_equal && (result.worst_layer < 0 || !(part->max_abs <= result.state_max_abs))) {
                result.worst_layer   = static_cast<int32_t>(i);
                result.worst_part    = part == &layers[i].delta ? 1 : 0;
                result.state_max_abs = part->max_abs;
            }
            sum += part->rms * part->rms;
            n_parts++;
            values.push_back(part->max_abs);
            values.push_back(part->rms);
        }
    }
    result.state_rms    = std::sqrt(sum / std::max(1, n_parts));
    result.state_status = are_equal(layers) ? StateStatus::Equal : result.n_layers_differing == 0 ? StateStatus::Rounding : StateStatus::Differs;
    arrays.push(result.t_start_ns, ArrayKind::Layers, values, {layers.size(), 2, 2});
}

}  // namespace draftscope
