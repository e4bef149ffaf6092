#include "speculation.h"

#include "error.h"

#include <algorithm>

namespace draftscope {

namespace {

std::string why_not_drafting(const Model & model, const Model * assistant, const ContextSettings & settings) {
    if (!settings.use_mtp) {
        return "MTP is turned off.";
    }
    if (settings.n_draft_max == 0) {
        return "The draft length is 0.";
    }
    if (!model.mtp_obstacle.empty()) {
        return model.mtp_obstacle;
    }
    if (assistant == nullptr && model.n_layer_nextn() == 0) {
        return "This model file has no MTP layers, so there is nothing that could draft.";
    }
    if (const auto missing = missing_symbols(); !missing.empty()) {
        return "The installed llama.cpp lacks " + missing.front() + ", which drafting needs.";
    }
    if (assistant != nullptr && &llama_get_ctx_other == nullptr) {
        return "The installed llama.cpp lacks llama_get_ctx_other, which drafting with an assistant needs.";
    }
    return "";
}

std::string count(int32_t n, const char * what) {
    return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

// A chain has one head for each draft step, so a draft is at most as long as the chain.
void limit_to_heads(Speculation & plan) {
    const bool    can_choose = &llama_set_nextn_layer_offset != nullptr;
    const int32_t n_heads    = can_choose ? plan.n_layer_nextn : 1;
    if (plan.n_draft_max <= n_heads) {
        return;
    }
    const std::string chain = "This model chains " + count(plan.n_layer_nextn, "MTP head") + ", one for each draft step";
    plan.reason = (can_choose ? chain : chain + ", and the installed llama.cpp lacks llama_set_nextn_layer_offset, which chooses one") +
                  ": " + count(n_heads, "token") + (n_heads == 1 ? " is" : " are") + " drafted a round, not " + std::to_string(plan.n_draft_max) + ".";
    plan.n_draft_max = n_heads;
}

}  // namespace

Speculation plan_speculation(const Model & model, const Model * assistant, const ContextSettings & settings) {
    Speculation plan;
    plan.n_layer_nextn = assistant != nullptr ? assistant->n_layer_nextn() : model.n_layer_nextn();
    plan.family        = assistant != nullptr      ? MtpFamily::Assistant
                         : plan.n_layer_nextn > 1  ? MtpFamily::ChainedHeads
                         : plan.n_layer_nextn == 1 ? MtpFamily::SingleHead
                                                   : MtpFamily::None;
    plan.reason        = why_not_drafting(model, assistant, settings);
    plan.is_active     = plan.reason.empty();
    plan.n_draft_max   = plan.is_active ? settings.n_draft_max : 0;
    if (plan.is_active && plan.family == MtpFamily::ChainedHeads) {
        limit_to_heads(plan);
    }
    return plan;
}

void check_assistant(const Model & model, const Model & assistant) {
    const int32_t width = llama_model_n_embd(model.get()), of_assistant = llama_model_n_embd_out(assistant.get());
    if (assistant.metadata("general.architecture") != model.metadata("general.architecture") + "-assistant" || assistant.n_layer_nextn() == 0) {
        throw EngineError("unsupported_model", "The draft file is no assistant of " + model.metadata("general.architecture") + " models.");
    }
    if (width != of_assistant || model.n_vocab() != assistant.n_vocab()) {
        throw EngineError("unsupported_model", "The draft file belongs to another model: it drafts from rows of " + std::to_string(of_assistant) + " numbers and a vocabulary of " +
                                                   std::to_string(assistant.n_vocab()) + " tokens, and this model has " + std::to_string(width) + " and " +
                                                   std::to_string(model.n_vocab()) + ".");
    }
}

}  // namespace draftscope
