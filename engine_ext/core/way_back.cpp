#include "way_back.h"

#include <algorithm>

namespace draftscope {

namespace {

constexpr double clearly_cheaper = 0.8;

bool is_cheaper(const TimedWay & way, const TimedWay & preferred) {
    return way.round_us > 0 && preferred.round_us > 0 && way.round_us < clearly_cheaper * preferred.round_us;
}

}  // namespace

Layout layout_of(Mechanism mechanism, int32_t n_draft) {
    return {mechanism == Mechanism::Rollback ? n_draft : 0, mechanism == Mechanism::Cow};
}

const char * name_of(Mechanism mechanism) {
    switch (mechanism) {
        case Mechanism::None: return "none";
        case Mechanism::KvRemoval: return "plain KV removal";
        case Mechanism::Rollback: return "native rollback";
        case Mechanism::Cow: return "cow";
        case Mechanism::Device: return "device";
        case Mechanism::Host: return "host";
    }
    return "";
}

std::vector<Mechanism> rank(const std::vector<TimedWay> & timed) {
    std::vector<const TimedWay *> left;
    for (const TimedWay & way : timed) {    // in the order of preference
        if (way.is_available) {
            left.push_back(&way);
        }
    }
    std::vector<Mechanism> order;
    while (!left.empty()) {
        auto best = left.begin();
        for (auto way = left.begin(); way != left.end(); ++way) {
            best = is_cheaper(**way, **best) ? way : best;
        }
        order.push_back((*best)->mechanism);
        left.erase(best);
    }
    return order;
}

std::vector<Mechanism> rank_asked(CheckpointMode asked) {
    const Mechanism first = asked == CheckpointMode::Cow      ? Mechanism::Cow
                            : asked == CheckpointMode::Device ? Mechanism::Device
                            : asked == CheckpointMode::Host   ? Mechanism::Host
                                                              : Mechanism::Rollback;
    const auto * begin = std::find(std::begin(ways_by_preference), std::end(ways_by_preference), first);
    return {begin, std::end(ways_by_preference)};
}

}  // namespace draftscope
