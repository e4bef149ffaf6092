// The part of a probe that runs the next draft from each of the three rows.
#include "probe.h"

#include <algorithm>

namespace draftscope {

namespace {

constexpr size_t n_likeliest = 16;    // tokens of each distribution that are told

}  // namespace

void Probe::try_drafts(std::span<Slot * const> all) {
    if (contexts.driver == nullptr) {
        return;
    }
    for (Slot * slot : all) {
        for (Open & open : at(slot->id).open) {
            if (is_due(open, *slot)) {
                const int64_t t_start = now_ns();
                try_rows(open, *slot);
                open.result.duration_ns += now_ns() - t_start;
                contexts.recorder.span(Phase::Probe, slot->id, t_start, open.result.position, 0, 0);
            }
        }
        settle(*slot);
    }
}

// The row that is compared must still be the one in use, and its token known. An assistant reads the target's keys up to the
// newest token, so it can be tried in rounds only.
bool Probe::is_due(const Open & open, const Slot & slot) const {
    const MtpDriver & driver = *contexts.driver;
    return !open.saved.empty() && open.trials.empty() && driver.pending_row(slot.id).size() == open.saved.size() &&
           digest_of(driver.pending_row(slot.id)) == open.restored && slot.n_tokens() > driver.n_known(slot.id) &&
           (slot.state() == SlotState::Generating || !driver.is_assistant());
}

void Probe::try_rows(Open & open, Slot & slot) {
    MtpDriver &              driver = *contexts.driver;
    const std::vector<float> restored(driver.pending_row(slot.id).begin(), driver.pending_row(slot.id).end());
    open.first = driver.n_known(slot.id) + 1;
    const std::vector<float> * const rows[] = {&open.saved, &restored, &open.without};
    for (const std::vector<float> * row : rows) {
        MtpDriver::Trial trial;
        if (driver.try_draft(slot, *row, contexts.settings.n_draft_max, contexts.companion, trial) != DecodeStatus::Done) {
            open.trials.clear();
            break;
        }
        open.trials.push_back(std::move(trial));
    }
    open.saved.clear();
    open.without.clear();
    if (!open.trials.empty()) {
        compare_drafts(open);
        for (MtpDriver::Trial & trial : open.trials) {
            trial.logits = {};
        }
    }
}

void Probe::compare_drafts(Open & open) {
    ProbeResult &             result = open.result;
    std::vector<Distribution> drafts;
    std::vector<int32_t>      tokens;
    for (const MtpDriver::Trial & trial : open.trials) {
        drafts.emplace_back(trial.logits);
        tokens.insert(tokens.end(), trial.tokens.begin(), trial.tokens.end());
    }
    const auto n_same = [&](size_t i) {
        const std::vector<int32_t> &a = open.trials[0].tokens, &b = open.trials[i].tokens;
        return static_cast<int32_t>(std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin());
    };
    const LogitDifference of_restored = compare_logits(drafts[0].logits, drafts[1].logits), of_without = compare_logits(drafts[0].logits, drafts[2].logits);
    result.n_vocab                = contexts.model.n_vocab();
    result.n_draft                = static_cast<int32_t>(open.trials[0].tokens.size());
    result.restored_n_changed     = of_restored.n_changed;
    result.restored_logit_max_abs = of_restored.max_abs;
    result.restored_kl            = kl_divergence(drafts[0], drafts[1]);
    result.without_n_changed      = of_without.n_changed;
    result.without_logit_max_abs  = of_without.max_abs;
    result.without_kl             = kl_divergence(drafts[0], drafts[2]);
    result.saved_top              = drafts[0].top();
    result.restored_top           = drafts[1].top();
    result.without_top            = drafts[2].top();
    result.saved_top_p            = drafts[0].probability(drafts[0].top());
    result.restored_top_p         = drafts[1].probability(drafts[1].top());
    result.without_top_p          = drafts[2].probability(drafts[2].top());
    result.restored_n_same        = n_same(1);
    result.without_n_same         = n_same(2);
    for (const int32_t token : tokens) {
        contexts.recorder.meet(token);
    }
    arrays.push(result.t_start_ns, ArrayKind::DraftTokens, tokens, {3, tokens.size() / 3});
    push_likeliest(open, drafts);
}

void Probe::push_likeliest(const Open & open, const std::vector<Distribution> & drafts) {
    std::vector<int32_t> tokens;
    for (const Distribution & draft : drafts) {
        for (const int32_t token : draft.likeliest(n_likeliest)) {
            if (std::find(tokens.begin(), tokens.end(), token) == tokens.end()) {
                tokens.push_back(token);
                contexts.recorder.meet(token);
            }
        }
    }
    std::vector<float> logits, probabilities;
    for (const Distribution & draft : drafts) {
        for (const int32_t token : tokens) {
            logits.push_back(draft.logits[static_cast<size_t>(token)]);
            probabilities.push_back(static_cast<float>(draft.probability(token)));
        }
    }
    const int64_t id = open.result.t_start_ns;
    arrays.push(id, ArrayKind::TopTokens, tokens, {tokens.size()});
    arrays.push(id, ArrayKind::TopLogits, logits, {drafts.size(), tokens.size()});
    arrays.push(id, ArrayKind::TopProbabilities, probabilities, {drafts.size(), tokens.size()});
}

}  // namespace draftscope
