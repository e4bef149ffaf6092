#include "reuse.h"

#include <algorithm>

namespace draftscope {

namespace {

int32_t count_common(const std::vector<int32_t> & a, const std::vector<int32_t> & b) {
    const auto [first, second] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    (void) second;
    return static_cast<int32_t>(first - a.begin());
}

// Positions whose hidden rows are known once everything behind the common tokens is dropped. The row of the last common
// token is gone where the MTP context has gone past it: that token is decoded again then.
int32_t known_after(const Past & past, int32_t n_common) {
    if (past.n_draft.has_value() && *past.n_draft > n_common) {
        return n_common - 1;
    }
    return past.n_known;
}

}  // namespace

ReusePlan plan_reuse(const Past & past, const std::vector<int32_t> & prompt) {
    ReusePlan     plan;
    const int32_t n_prompt = static_cast<int32_t>(prompt.size());
    plan.n_common          = count_common(past.tokens, prompt);
    if (past.n_decoded == 0) {
        return plan;
    }
    // The last token of the prompt is decoded for its logits, unless a checkpoint has them.
    const int32_t n_most = std::min({past.n_decoded, plan.n_common, n_prompt - 1});
    plan.n_best          = std::max(0, std::min(n_most, known_after(past, plan.n_common)));
    if (plan.n_best == 0) {
        plan.reuse = Reuse::NothingCommon;
    } else if (plan.n_best == past.n_decoded) {
        plan.reuse = Reuse::Kept;
    } else if (plan.n_best >= past.n_least) {
        plan.reuse = Reuse::TailDropped;
    } else {
        for (const PromptCheckpoint & checkpoint : past.checkpoints) {
            const bool is_whole = checkpoint.position == n_prompt && plan.n_common == n_prompt && !checkpoint.logits.empty();
            plan.checkpoint     = checkpoint.position <= n_most || is_whole ? &checkpoint : plan.checkpoint;
        }
        plan.reuse = plan.checkpoint == nullptr ? Reuse::NoCheckpoint : Reuse::Restored;
    }
    const bool keeps_best = plan.reuse == Reuse::Kept || plan.reuse == Reuse::TailDropped;
    plan.n_keep           = keeps_best ? plan.n_best : plan.checkpoint == nullptr ? 0 : plan.checkpoint->position;
    return plan;
}

}  // namespace draftscope
