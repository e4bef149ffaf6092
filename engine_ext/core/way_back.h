// Which mechanism takes the target back after a rejected draft: what was asked for, what is granted, and why, in words.
#pragma once

#include "records.h"
#include "settings.h"

#include <string>
#include <vector>

namespace draftscope {

// A way back, timed on the loaded model; the same fields, with the same meaning, as in draftscope.engine.protocol.
struct TimedWay {
    Mechanism   mechanism    = Mechanism::None;
    bool        is_available = true;
    bool        is_chosen    = false;
    int32_t     n_timed      = 0;
    double      save_us = 0, restore_us = 0, verify_us = 0, after_us = 0, replay_us = 0, round_us = 0;
    int64_t     bytes_per_slot = 0;
    std::string why;
};

struct WayBack {
    CheckpointMode        asked             = CheckpointMode::Auto;
    Mechanism             granted           = Mechanism::None;
    int32_t               n_rs_seq_asked    = 0;
    int32_t               n_rs_seq_granted  = 0;
    std::string           why;
    int64_t               bytes_per_slot    = 0;    // of a saved state, where states are saved
    std::vector<TimedWay> calibration;
    double                calibration_ms    = 0;
};

// How the target context is laid out for a mechanism.
struct Layout {
    int32_t n_rs_seq   = 0;        // steps back that the recurrent memory keeps
    bool    has_spares = false;    // a spare sequence for each slot, and keys of all slots in one buffer
};
Layout layout_of(Mechanism mechanism, int32_t n_draft);

// The mechanisms in the order of preference: the first costs least where nothing speaks against it.
constexpr Mechanism ways_by_preference[] = {Mechanism::Rollback, Mechanism::Cow, Mechanism::Device, Mechanism::Host};

const char * name_of(Mechanism mechanism);

// The order in which to try the timed ways: the cheapest first. A way further down the order of preference goes before
// another only where it is clearly cheaper, so that the noise of a measurement does not change the choice from load to load.
std::vector<Mechanism> rank(const std::vector<TimedWay> & timed);

// What stands first in the order of preference, without a measurement, when a mode was asked for by name.
std::vector<Mechanism> rank_asked(CheckpointMode asked);

}  // namespace draftscope
