#include "parts.h"

#include "error.h"
#include "target_context.h"

#include <algorithm>
#include <limits>

namespace draftscope {

Parts::Parts(const Model & model, const Model * assistant, const ContextSettings & settings_, Recorder & recorder, const ProbeSettings & probe_settings,
             ArrayRing & arrays)
    : settings(settings_) {
    speculation          = plan_speculation(model, assistant, settings);
    settings.n_draft_max = speculation.n_draft_max;
    settings.n_threads   = settings.n_threads > 0 ? settings.n_threads : default_threads();
    settings.n_batch     = std::max(settings.n_batch, settings.n_slots * (1 + settings.n_draft_max + max_riding_replay));

    TargetContext made = make_target(model, settings, speculation.is_active);
    settings.keep_going = nullptr;    // its caller waits no longer
    target              = std::move(made.decoder);
    layout             = made.layout;
    way_back           = std::move(made.way_back);
    make_draft(model, assistant, recorder);
    measure_state(model);
    for (int32_t id = 0; id < settings.n_slots; id++) {
        slots.push_back(std::make_unique<Slot>(id, recorder));
    }
    contexts = std::make_unique<Contexts>(Contexts{model, settings, *target, driver.get(), *companion, *checkpoint, recorder, made.costs});
    contexts->is_unified = layout.has_spares;
    contexts->drops_any_tail = !model.is_recurrent() && (llama_model_n_swa(model.get()) == 0 || speculation.is_active);
    contexts->n_steps_back   = way_back.n_rs_seq_granted;
    probe                    = std::make_unique<Probe>(*contexts, probe_settings, arrays, settings.n_slots);
    contexts->probe          = probe.get();
    slot_memory              = std::make_unique<SlotMemory>(*contexts, slots);
    contexts->memory         = slot_memory.get();
    contexts->ends_at        = settings.shift && slot_memory->why_not_shift().empty() ? std::numeric_limits<int32_t>::max() : settings.n_ctx;
    scheduler = std::make_unique<Scheduler>(*contexts, counts);
    round     = std::make_unique<Round>(*contexts, counts);
}

void Parts::make_draft(const Model & model, const Model * assistant, Recorder & recorder) {
    const bool is_shared = speculation.family == MtpFamily::Assistant;
    if (speculation.is_active) {
        llama_set_embeddings_nextn(target->context(), true, /*masked =*/false);
        const Model & drafting = is_shared ? *assistant : model;
        auto          decoder  = std::make_unique<Decoder>(drafting.get(), draft_params(is_shared), "MTP");
        if (is_shared && llama_get_ctx_other(decoder->context()) != target->context()) {
            throw EngineError("unsupported_model", "llama.cpp does not let the draft file read the keys and values of this model.");
        }
        driver = std::make_unique<MtpDriver>(std::move(decoder), speculation, recorder, settings.n_slots, model.n_vocab());
    }
    // An assistant has no memory of its own: its context answers for the target's, and removing there does nothing.
    Decoder * own_memory = driver == nullptr || is_shared ? nullptr : &driver->decoder();
    companion            = std::make_unique<Companion>(*target, own_memory, layout.has_spares ? settings.n_slots : -1);
    checkpoint           = make_checkpoint(way_back.granted, *companion, recorder, settings.n_slots);
}

// An assistant's context views the cells of the target, so it must have as many, in the same streams.
llama_context_params Parts::draft_params(bool is_shared) const {
    llama_context_params params = llama_context_default_params();
    params.ctx_type             = LLAMA_CONTEXT_TYPE_MTP;
    params.ctx_other            = target->context();
    params.n_ctx                = llama_n_ctx(target->context());
    params.n_seq_max            = is_shared ? llama_n_seq_max(target->context()) : static_cast<uint32_t>(settings.n_slots);
    params.kv_unified           = is_shared && layout.has_spares;
    params.n_batch = params.n_ubatch = static_cast<uint32_t>(settings.n_batch);
    params.n_outputs_max             = static_cast<uint32_t>(std::max(2, settings.n_slots));
    params.n_threads = params.n_threads_batch = settings.n_threads;
    params.swa_full                           = true;
    return params;
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
