// What of a slot's memory a prompt can take up again. Pure planning: nothing here changes a memory.
#pragma once

#include "prompt_checkpoints.h"
#include "records.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace draftscope {

// What a slot, or an image of one, has in memory.
struct Past {
    const std::vector<int32_t> &          tokens;
    int32_t                               n_decoded;    // positions of the target
    std::optional<int32_t>                n_draft;      // positions of the MTP context; none when nothing is drafted
    int32_t                               n_known;      // positions whose hidden rows are known; n_decoded when nothing is drafted
    const std::vector<PromptCheckpoint> & checkpoints;
    int32_t                               n_least;    // positions that must stay when the target's memory drops its tail
};

struct ReusePlan {
    Reuse                    reuse   = Reuse::None;
    int32_t                  n_keep  = 0;    // positions of the target that stay
    int32_t                  n_common = 0;    // tokens that the prompt begins with
    int32_t                  n_best  = 0;    // positions that could stay if the memory could drop any tail
    const PromptCheckpoint * checkpoint = nullptr;    // for Restored; borrowed from the past
};

ReusePlan plan_reuse(const Past & past, const std::vector<int32_t> & prompt);

}  // namespace draftscope
