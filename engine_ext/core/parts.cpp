#include "parts.h"

#include "target_context.h"

#include <algorithm>
#include <limits>

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
    settings.n_batch     = std::max(settings.n_batch, settings.n_slots * (1 + settings.n_draft_max + max_riding_replay));

    TargetContext made = make_target(model, settings, speculation.is_active);
    settings.keep_going = nullptr;    // its caller waits no longer
    target              = std::move(made.decoder);
    layout             = made.layout;
    way_back           = std::move(made.way_back);
    make_draft(model, recorder);
    measure_state(model);
    for (int32_t id = 0; id < settings.n_slots; id++) {
        slots.push_back(std::make_unique<Slot>(id, recorder));
    }
    contexts = std::make_unique<Contexts>(Contexts{model, settings, *target, driver.get(), *companion, *checkpoint, recorder, made.costs});
    contexts->is_unified = layout.has_spares;
    contexts->drops_any_tail = !model.is_recurrent() && (llama_model_n_swa(model.get()) == 0 || speculation.is_active);
    contexts->n_steps_back   = way_back.n_rs_seq_granted;
    slot_memory              = std::make_unique<SlotMemory>(*contexts, settings.n_slots);
    contexts->memory         = slot_memory.get();
    contexts->ends_at        = settings.shift && slot_memory->why_not_shift().empty() ? std::numeric_limits<int32_t>::max() : settings.n_ctx;
    scheduler = std::make_unique<Scheduler>(*contexts, counts);
    round     = std::make_unique<Round>(*contexts, counts);
}

void Parts::make_draft(const Model & model, Recorder & recorder) {
    if (speculation.is_active) {
        llama_set_embeddings_nextn(target->context(), true, /*masked =*/false);
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
    companion  = std::make_unique<Companion>(*target, driver == nullptr ? nullptr : &driver->decoder(), layout.has_spares ? settings.n_slots : -1);
    checkpoint = make_checkpoint(way_back.granted, *companion, recorder, settings.n_slots);
}

// The size of a recurrent state is known only of a sequence that has one.
void Parts::measure_state(const Model & model) {
    target->clear();
    target->add(0, 0, 0, true);
    if (target->decode() == DecodeStatus::Done) {
        state_bytes             = model.is_recurrent() ? state_tensor_bytes(*target, 0) : 0;    // of other models libllama counts keys
        const Mechanism granted = way_back.granted;
        const bool      saves   = granted == Mechanism::Cow || granted == Mechanism::Device || granted == Mechanism::Host;
        way_back.bytes_per_slot = saves ? companion->state_bytes(0) : 0;
    }
    target->clear();
    companion->clear(0);
}

std::vector<MemoryUse> Parts::memory() const {
    const int32_t n_spares = layout.has_spares ? settings.n_slots : 0;
    std::vector<MemoryUse> uses = measure_memory(*target, driver == nullptr ? nullptr : &driver->decoder(), checkpoint->saved_bytes(), state_bytes, settings.n_slots,
                          way_back.n_rs_seq_granted, n_spares);
    if (!uses.empty()) {
        uses.push_back({"prompt_checkpoints", slot_memory->checkpoint_bytes(), 0});
        uses.push_back({"prompt_cache", slot_memory->cache_bytes(), 0});
    }
    return uses;
}

}  // namespace draftscope
