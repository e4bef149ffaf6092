#include "engine.h"

#include "error.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <thread>

namespace draftscope {

int32_t default_threads() {
    const auto n = static_cast<int32_t>(std::max(1u, std::thread::hardware_concurrency()));
    return n <= 8 ? std::max(1, n - 1) : n / 2;
}

namespace {

constexpr int32_t max_draft   = 16;
constexpr int32_t max_threads = 256;

void check_range(const char * what, double value, double low, double high) {
    if (!(value >= low && value <= high)) {
        const auto text = [](double x) {
            std::ostringstream out;
            out << std::setprecision(10) << x;
            return out.str();
        };
        throw EngineError("bad_settings", std::string(what) + " is " + text(value) + ", outside " + text(low) + " to " + text(high) + ".");
    }
}

void check_settings(const ContextSettings & settings) {
    check_range("The number of slots", settings.n_slots, 1, Engine::max_slots);
    check_range("The context of a slot", settings.n_ctx, 16, 1 << 24);
    check_range("The draft length", settings.n_draft_max, 0, max_draft);
    check_range("The number of threads", settings.n_threads, 0, max_threads);
    check_range("The batch size", settings.n_batch, 32, 1 << 16);
    if (settings.checkpoint == CheckpointMode::Cow || settings.checkpoint == CheckpointMode::Device) {
        const bool cow = settings.checkpoint == CheckpointMode::Cow;
        throw EngineError("bad_settings", std::string("Checkpoints in mode '") + (cow ? "cow" : "device") + "' are not in this version.",
                          "Use auto, rollback or host.");
    }
}

void check_sampling(const SamplingSettings & sampling) {
    check_range("The temperature", static_cast<double>(sampling.temperature), 0, 100);
    check_range("Top-k", sampling.top_k, 0, 1 << 30);
    check_range("Top-p", static_cast<double>(sampling.top_p), 0, 1);
    check_range("Min-p", static_cast<double>(sampling.min_p), 0, 1);
    check_range("The presence penalty", static_cast<double>(sampling.presence_penalty), -100, 100);
    check_range("The length that penalties look back", sampling.repeat_last_n, 0, 1 << 24);
    if (!(sampling.repeat_penalty > 0.0f && sampling.repeat_penalty <= 100.0f)) {
        throw EngineError("bad_settings", "The repetition penalty must be above 0 and at most 100; 1 switches it off.");
    }
}

// Rounds need a decoder with a memory that goes token by token.
void check_generates(const Model & model) {
    const llama_model * m = model.get();
    const char *        why = llama_model_has_encoder(m)   ? "has an encoder"
                            : !llama_model_has_decoder(m)  ? "has no decoder"
                            : llama_model_is_diffusion(m)  ? "generates by diffusion"
                                                           : nullptr;
    if (why != nullptr) {
        throw EngineError("unsupported_model", "This model (" + model.metadata("general.architecture") + ") " + why +
                                                   "; Draftscope runs models that generate text token by token.");
    }
}

}  // namespace

// What configure() makes, in the order in which it must go away again.
struct Engine::Parts {
    ContextSettings             settings;
    std::unique_ptr<Decoder>    target;
    std::unique_ptr<MtpDriver>  driver;
    std::unique_ptr<Companion>  companion;
    std::unique_ptr<Checkpoint> checkpoint;
    std::unique_ptr<Contexts>   contexts;
    std::vector<std::unique_ptr<Slot>> slots;
    TargetCounts                counts;
    std::unique_ptr<Scheduler>  scheduler;
    std::unique_ptr<Round>      round;
};

Engine::Engine(void * memory, size_t size_bytes) : ring(memory, size_bytes), recorder(ring) {
    llama_backend_init();
}

Engine::~Engine() {
    unload();
}

Engine::Parts & Engine::loaded() {
    if (parts == nullptr) {
        throw EngineError("not_loaded", "No model is loaded.", "Open a GGUF file first.");
    }
    return *parts;
}

ModelReport Engine::load(const ModelSettings & settings, const Model::Progress & progress) {
    unload();
    ring.set_operation(Phase::Load, no_round);
    model = std::make_unique<Model>(settings, [&](float fraction) {
        recorder.beat();
        return progress(fraction);
    });
    ring.set_operation(Phase::Idle, no_round);
    recorder.forget_tokens();
    try {
        check_generates(*model);
    } catch (const EngineError &) {
        unload();
        throw;
    }
    describe_model();
    return report_;
}

void Engine::describe_model() {
    const llama_model * m      = model->get();
    report_                    = ModelReport{};
    report_.description        = model->description();
    report_.architecture       = model->metadata("general.architecture");
    report_.size_bytes         = llama_model_size(m);
    report_.n_params           = llama_model_n_params(m);
    report_.n_layer            = llama_model_n_layer(m);
    report_.n_embd             = llama_model_n_embd(m);
    report_.n_vocab            = model->n_vocab();
    report_.n_ctx_train        = llama_model_n_ctx_train(m);
    report_.has_tokenizer      = model->has_tokenizer();
    report_.has_chat_template  = llama_model_chat_template(m, nullptr) != nullptr;
    report_.is_recurrent       = llama_model_is_recurrent(m) || llama_model_is_hybrid(m);
    report_.devices            = model->devices();
    report_.engine             = std::string("llama.cpp ") + llama_version();
    report_.is_patched         = grants_rollback("qwen3next");
    report_.speculation.n_layer_nextn = model->n_layer_nextn();
}

void Engine::unload() {
    parts.reset();
    model.reset();
    report_ = ModelReport{};
}

std::string Engine::why_not_drafting(const ContextSettings & settings) const {
    if (!settings.use_mtp) {
        return "MTP is turned off.";
    }
    if (settings.n_draft_max == 0) {
        return "The draft length is 0.";
    }
    if (!model->mtp_obstacle.empty()) {
        return model->mtp_obstacle;
    }
    if (model->n_layer_nextn() == 0) {
        return "This model file has no MTP layers, so there is nothing that could draft.";
    }
    if (const auto missing = missing_symbols(); !missing.empty()) {
        return "The installed llama.cpp lacks " + missing.front() + ", which drafting needs.";
    }
    return "";
}

ModelReport Engine::configure(const ContextSettings & settings) {
    if (model == nullptr) {
        throw EngineError("not_loaded", "No model is loaded.", "Open a GGUF file first.");
    }
    check_settings(settings);
    parts.reset();
    recorder.reset_counts();
    ring.set_operation(Phase::Load, no_round);
    auto        fresh = std::make_unique<Parts>();
    const auto  why   = why_not_drafting(settings);
    const bool  draft = why.empty();
    Speculation speculation{draft, model->n_layer_nextn(), draft ? settings.n_draft_max : 0, why};
    if (draft && speculation.n_layer_nextn > 1) {
        speculation.n_draft_max = 1;
        speculation.reason      = "This model chains " + std::to_string(speculation.n_layer_nextn) +
                             " MTP heads, one for each draft step; this version drives the first, so one token is drafted a round.";
    }
    fresh->settings             = settings;
    fresh->settings.n_draft_max = speculation.n_draft_max;
    fresh->settings.n_threads   = settings.n_threads > 0 ? settings.n_threads : default_threads();
    make_target(*fresh, draft, speculation.n_draft_max);
    make_draft(*fresh, draft);

    for (int32_t id = 0; id < settings.n_slots; id++) {
        fresh->slots.push_back(std::make_unique<Slot>(id, recorder));
        cancelled[static_cast<size_t>(id)] = false;
    }
    fresh->contexts = std::make_unique<Contexts>(Contexts{*model, fresh->settings, *fresh->target, fresh->driver.get(),
                                                          *fresh->companion, *fresh->checkpoint, recorder});
    fresh->scheduler = std::make_unique<Scheduler>(*fresh->contexts, fresh->counts);
    fresh->round     = std::make_unique<Round>(*fresh->contexts, fresh->counts);
    fresh->round->is_cancelled = [this](int32_t slot) { return is_cancelled(slot); };
    const auto abort           = [this] { return all_in_flight_cancelled(); };
    fresh->target->should_abort = abort;
    if (fresh->driver != nullptr) {
        fresh->driver->decoder().should_abort = abort;
    }
    parts = std::move(fresh);

    report_.n_slots_asked = settings.n_slots;
    report_.n_slots       = static_cast<int32_t>(parts->slots.size());
    report_.n_ctx         = settings.n_ctx;
    report_.n_threads     = parts->settings.n_threads;
    report_.speculation   = speculation;
    ring.set_operation(Phase::Idle, no_round);
    return report_;
}

void Engine::make_target(Parts & fresh, bool draft, int32_t n_draft) {
    ContextSettings & settings = fresh.settings;
    const int32_t     n_rows   = settings.n_slots * (1 + n_draft + Round::max_riding_replay);    // of a verification
    settings.n_batch           = std::max(settings.n_batch, n_rows);
    // Room behind the slot's last token for a draft, so that all slots always draft alike.
    const int32_t n_ctx_slot = (settings.n_ctx + n_draft + 1 + 255) / 256 * 256;
    const bool    ask        = draft && report_.is_recurrent && settings.checkpoint != CheckpointMode::Host;

    llama_context_params params = llama_context_default_params();
    params.n_ctx                = static_cast<uint32_t>(n_ctx_slot * settings.n_slots);
    params.n_seq_max            = static_cast<uint32_t>(settings.n_slots);
    params.n_batch = params.n_ubatch = static_cast<uint32_t>(settings.n_batch);
    params.n_outputs_max             = static_cast<uint32_t>(n_rows);
    params.n_threads = params.n_threads_batch = settings.n_threads;
    params.n_rs_seq                           = static_cast<uint32_t>(ask ? n_draft : 0);
    params.swa_full                           = draft;    // a window that forgets cannot give back what a rollback needs
    fresh.target    = std::make_unique<Decoder>(model->get(), params, "target");
    if (fresh.target->memory() == nullptr) {
        throw EngineError("unsupported_model", "This model (" + report_.architecture + ") keeps no memory of its tokens, so it cannot generate text.");
    }
    fresh.companion = std::make_unique<Companion>(*fresh.target, nullptr);

    WayBack & way = report_.way_back;
    if (!draft) {
        way       = WayBack{};
        way.asked = settings.checkpoint;
        way.why   = "Nothing is drafted, so nothing is rolled back.";
    } else {
        const bool can_drop = llama_n_rs_seq(fresh.target->context()) == 0 && fresh.companion->can_drop_tail();
        way = choose_way_back(settings.checkpoint, ask ? n_draft : 0, n_draft, *fresh.target, can_drop);
        llama_set_embeddings_nextn(fresh.target->context(), true, /*masked =*/false);
    }
}

void Engine::make_draft(Parts & fresh, bool draft) {
    const ContextSettings & settings = fresh.settings;
    if (draft) {
        llama_context_params params = llama_context_default_params();
        params.ctx_type             = LLAMA_CONTEXT_TYPE_MTP;
        params.ctx_other            = fresh.target->context();
        params.n_ctx                = llama_n_ctx(fresh.target->context());
        params.n_seq_max            = static_cast<uint32_t>(settings.n_slots);
        params.n_batch = params.n_ubatch = static_cast<uint32_t>(settings.n_batch);
        params.n_outputs_max             = static_cast<uint32_t>(std::max(2, settings.n_slots));
        params.n_threads = params.n_threads_batch = settings.n_threads;
        params.swa_full                           = true;
        auto decoder = std::make_unique<Decoder>(model->get(), params, "MTP");
        fresh.driver = std::make_unique<MtpDriver>(std::move(decoder), recorder, settings.n_slots, model->n_vocab());
    }
    fresh.companion  = std::make_unique<Companion>(*fresh.target, fresh.driver == nullptr ? nullptr : &fresh.driver->decoder());
    fresh.checkpoint = make_checkpoint(report_.way_back.granted, *fresh.companion, recorder, settings.n_slots);
    if (fresh.checkpoint->saves()) {
        // The size of a state is known only of a sequence that has one.
        fresh.target->clear();
        fresh.target->add(0, 0, 0, true);
        if (fresh.target->decode() == DecodeStatus::Done) {
            report_.way_back.bytes_per_slot = static_cast<int64_t>(fresh.companion->save_state(0).size());
        }
        fresh.companion->clear(0);
    }
}

ChatTemplate Engine::chat_template() const {
    ChatTemplate found;
    if (model == nullptr) {
        return found;
    }
    const char * source = llama_model_chat_template(model->get(), nullptr);
    if (source != nullptr) {
        found.source       = source;
        const int32_t bos  = llama_vocab_bos(model->vocab()), eos = llama_vocab_eos(model->vocab());
        found.bos          = bos >= 0 ? model->piece(bos, true) : "";
        found.eos          = eos >= 0 ? model->piece(eos, true) : "";
    }
    return found;
}

std::vector<int32_t> Engine::tokenize(const std::string & text, bool add_special, bool parse_special) const {
    if (model == nullptr) {
        throw EngineError("not_loaded", "No model is loaded.", "Open a GGUF file first.");
    }
    return model->tokenize(text, add_special, parse_special);
}

std::string Engine::piece(int32_t token) const {
    return model == nullptr || token < 0 || token >= model->n_vocab() ? "" : model->piece(token, true);
}

void Engine::submit(Task task) {
    Parts & p = loaded();
    if (task.slot < 0 || task.slot >= static_cast<int32_t>(p.slots.size())) {
        throw EngineError("bad_settings", "There is no slot " + std::to_string(task.slot) + "; the engine has " + std::to_string(p.slots.size()) + ".");
    }
    Slot & slot = *p.slots[static_cast<size_t>(task.slot)];
    if (slot.is_active()) {
        throw EngineError("busy", "Slot " + std::to_string(task.slot) + " is still generating.", "Wait for it or cancel it.");
    }
    check_sampling(task.sampling);
    check_range("The number of tokens to generate", task.max_tokens, 1, 1 << 24);
    if (task.prompt.empty()) {
        throw EngineError("bad_prompt", "The prompt of slot " + std::to_string(task.slot) + " is empty.", "Give it at least one token.");
    }
    if (static_cast<int32_t>(task.prompt.size()) >= p.settings.n_ctx) {
        throw EngineError("bad_prompt", "The prompt of slot " + std::to_string(task.slot) + " has " + std::to_string(task.prompt.size()) +
                                            " tokens; a slot holds " + std::to_string(p.settings.n_ctx) + ".",
                          "Shorten it or load with a larger context.");
    }
    for (const int32_t token : task.prompt) {
        if (token < 0 || token >= model->n_vocab()) {
            throw EngineError("bad_prompt", "Token " + std::to_string(token) + " is outside the vocabulary of " + std::to_string(model->n_vocab()) + " tokens.");
        }
    }
    if (std::none_of(p.slots.begin(), p.slots.end(), [](const auto & other) { return other->is_active(); })) {
        p.round->start_numbering();
    }
    clear_slot(*p.contexts, task.slot);
    cancelled[static_cast<size_t>(task.slot)] = false;
    slot.start(*model, std::move(task), p.settings.n_draft_max);
}

std::vector<Slot *> Engine::slots_in(SlotState state) {
    std::vector<Slot *> found;
    for (const auto & slot : parts->slots) {
        if (slot->state() == state) {
            found.push_back(slot.get());
        }
    }
    return found;
}

void Engine::drop_cancelled() {
    for (const auto & slot : parts->slots) {
        if (slot->is_active() && is_cancelled(slot->id)) {
            end_slot(*parts->contexts, *slot, StopReason::Cancelled);
        }
    }
}

bool Engine::all_in_flight_cancelled() {
    if ((n_asked++ & 63u) == 0) {
        recorder.beat();
    }
    return !in_flight.empty() && std::all_of(in_flight.begin(), in_flight.end(), [this](const Slot * slot) { return is_cancelled(slot->id); });
}

bool Engine::step() {
    if (parts == nullptr) {
        return false;
    }
    drop_cancelled();
    if (in_flight = slots_in(SlotState::Prompt); !in_flight.empty()) {
        parts->scheduler->prefill(in_flight);
    }
    if (in_flight = slots_in(SlotState::Generating); !in_flight.empty()) {
        parts->round->run(in_flight);
    }
    in_flight.clear();
    recorder.operation(Phase::Idle);
    return std::any_of(parts->slots.begin(), parts->slots.end(), [](const auto & slot) { return slot->is_active(); });
}

void Engine::cancel(int32_t slot) {
    for (int32_t id = 0; id < max_slots; id++) {
        if (slot == -1 || slot == id) {
            cancelled[static_cast<size_t>(id)] = true;
        }
    }
}

std::vector<SlotResult> Engine::take_results() {
    std::vector<SlotResult> results;
    if (parts != nullptr) {
        for (const auto & slot : parts->slots) {
            if (auto result = slot->take_result()) {
                results.push_back(std::move(*result));
            }
        }
    }
    return results;
}

std::vector<int32_t> Engine::take_new_tokens() {
    return recorder.take_new_tokens();
}

Counts Engine::counts() const {
    Counts counts;
    if (parts != nullptr) {
        counts.target = parts->counts;
        if (parts->driver != nullptr) {
            counts.draft = parts->driver->counts;
        }
        counts.n_saves    = recorder.n_saves;
        counts.n_restores = recorder.n_restores;
    }
    return counts;
}

std::vector<float> Engine::logits_of(int32_t slot, const std::vector<int32_t> & tokens, const std::vector<int32_t> & chunks) {
    Parts & p = loaded();
    if (p.slots.at(static_cast<size_t>(slot))->is_active()) {
        throw EngineError("busy", "Slot " + std::to_string(slot) + " is still generating.");
    }
    clear_slot(*p.contexts, slot);
    int32_t position = 0, index = -1;
    for (const int32_t n : chunks) {
        p.target->clear();
        for (int32_t i = 0; i < n; i++, position++) {
            index = p.target->add(slot, tokens.at(static_cast<size_t>(position)), position, i + 1 == n);
        }
        if (p.target->decode() != DecodeStatus::Done) {
            throw EngineError("decode_failed", "llama.cpp could not decode the tokens.");
        }
    }
    const float *      logits = p.target->logits(index);
    std::vector<float> copy(logits, logits + model->n_vocab());
    clear_slot(*p.contexts, slot);
    return copy;
}

}  // namespace draftscope
