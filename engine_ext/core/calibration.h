// Times the ways back on the loaded model, in small contexts made for it, so that `auto` can take the cheapest.
#pragma once

#include "cost_model.h"
#include "model.h"
#include "way_back.h"

#include <vector>

namespace draftscope {

struct CalibrationResult {
    std::vector<TimedWay> ways;    // in the order of preference, each mechanism once
    double                duration_ms = 0;

    // Decodes of one mechanism, to learn their cost from.
    struct Decode {
        Mechanism mechanism;
        int64_t   n_graphs, n_tokens, duration_ns;
    };
    std::vector<Decode> decodes;
};

// A recurrent model, settings as granted (n_draft_max > 0). Takes a fraction of a second on small models; on large ones
// what is not timed after `calibration_limit_ms` stays so, and the order of preference decides. Ways that cannot be had, or whose
// states there is no memory for, come back as not available, with the reason.
CalibrationResult calibrate(const Model & model, const ContextSettings & settings);

constexpr int64_t calibration_limit_ms = 2000;

}  // namespace draftscope
