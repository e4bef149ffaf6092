#include "parts.h"

#include "error.h"

#include <algorithm>

namespace draftscope {

namespace {

std::string why_not_drafting(const Model & model, const ContextSettings & settings) {
    if (!settings.use_mtp) {
        return "MTP is turned off.";
    }
    if (settings.n_draft_max == 0) {
        return "The draft length is 0.";
    }
    if (!model.mtp_obstacle.empty()) {
        return model.mtp_obstacle;
    }
    if (model.n_layer_nextn() == 0) {
        return "This model file has no MTP layers, so there is nothing that could draft.";
    }
    if (const auto missing = missing_symbols(); !missing.empty()) {
        return "The installed llama.cpp lacks " + missing.front() + ", which drafting needs.";
    }
    return "";
}

Speculation plan_speculation(const Model & model, const ContextSettings & settings) {
    Speculation plan;
    plan.n_layer_nextn = model.n_layer_nextn();
    plan.reason        = why_not_drafting(model, settings);
    plan.is_active     = plan.reason.empty();
    plan.n_draft_max   = plan.is_active ? settings.n_draft_max : 0;
    if (plan.is_active && plan.n_layer_nextn > 1) {
        plan.n_draft_max = 1;
        plan.reason      = "This model chains " + std::to_string(plan.n_layer_nextn) +
                      " MTP heads, one for each draft step; this version drives the first, so one token is drafted a round.";
    }
    return plan;
}

}  // namespace

Parts::Parts(const Model & model, const ContextSettings & settings_, Recorder & recorder) : settings(settings_) {
    speculation          = plan_speculation(model, settings);
    settings.n_draft_max = speculation.n_draft_max;
    settings.n_threads   = settings.n_threads > 0 ? settings.n_threads : default_threads();
    make_target(model);
    make_draft(model, recorder);
    measure_state();
    for (int32_t id = 0; id < settings.n_slots; id++) {
        slots.push_back(std::make_unique<Slot>(id, recorder));
    }
    contexts  = std::make_unique<Contexts>(Contexts{model, settings, *target, driver.get(), *companion, *checkpoint, recorder});
    scheduler = std::make_unique<Scheduler>(*contexts, counts);
    round     = std::make_unique<Round>(*contexts, counts);
}

void Parts::make_target(const Model & model) {
    const int32_t n_draft = settings.n_draft_max;
    const int32_t n_rows  = settings.n_slots * (1 + n_draft + Round::max_riding_replay);    // of a verification
    settings.n_batch      = std::max(settings.n_batch, n_rows);
    // Room behind the slot's last token for a draft, so that all slots always draft alike.
    const int32_t n_ctx_slot = (settings.n_ctx + n_draft + 1 + 255) / 256 * 256;
    const bool    ask        = speculation.is_active && model.is_recurrent() && settings.checkpoint != CheckpointMode::Host;

    llama_context_params params = llama_context_default_params();
    params.n_ctx                = static_cast<uint32_t>(n_ctx_slot * settings.n_slots);
    params.n_seq_max            = static_cast<uint32_t>(settings.n_slots);
    params.n_batch = params.n_ubatch = static_cast<uint32_t>(settings.n_batch);
    params.n_outputs_max             = static_cast<uint32_t>(n_rows);
    params.n_threads = params.n_threads_batch = settings.n_threads;
    params.n_rs_seq                           = static_cast<uint32_t>(ask ? n_draft : 0);
    params.swa_full = speculation.is_active;    // a window that forgets cannot give back what a rollback needs
    target          = std::make_unique<Decoder>(model.get(), params, "target");
    if (target->memory() == nullptr) {
        throw EngineError("unsupported_model", "This model (" + model.metadata("general.architecture") +
                                                   ") keeps no memory of its tokens, so it cannot generate text.");
    }
    if (speculation.is_active) {
        const bool can_drop = llama_n_rs_seq(target->context()) == 0 && Companion(*target, nullptr).can_drop_tail();
        way_back            = choose_way_back(settings.checkpoint, ask ? n_draft : 0, n_draft, *target, can_drop);
        llama_set_embeddings_nextn(target->context(), true, /*masked =*/false);
    } else {
        way_back.asked = settings.checkpoint;
        way_back.why   = "Nothing is drafted, so nothing is rolled back.";
    }
}

void Parts::make_draft(const Model & model, Recorder & recorder) {
    if (speculation.is_active) {
        llama_context_params params = llama_context_default_params();
        params.ctx_type             = LLAMA_CONTEXT_TYPE_MTP;
        params.ctx_other            = target->context();
        params.n_ctx                = llama_n_ctx(target->context());
        params.n_seq_max            = static_cast<uint32_t>(settings.n_slots);
        params.n_batch = params.n_ubatch = static_cast<uint32_t>(settings.n_batch);
        params.n_outputs_max             = static_cast<uint32_t>(std::max(2, settings.n_slots));
        params.n_threads = params.n_threads_batch = settings.n_threads;
        params.swa_full                           = true;
        driver = std::make_unique<MtpDriver>(std::make_unique<Decoder>(model.get(), params, "MTP"), recorder, settings.n_slots, model.n_vocab());
    }
    companion  = std::make_unique<Companion>(*target, driver == nullptr ? nullptr : &driver->decoder());
    checkpoint = make_checkpoint(way_back.granted, *companion, recorder, settings.n_slots);
}

// The size of a saved state is known only of a sequence that has one.
void Parts::measure_state() {
    if (!checkpoint->saves()) {
        return;
    }
    target->clear();
    target->add(0, 0, 0, true);
    if (target->decode() == DecodeStatus::Done) {
        way_back.bytes_per_slot = static_cast<int64_t>(companion->save_state(0).size());
    }
    companion->clear(0);
}

}  // namespace draftscope
