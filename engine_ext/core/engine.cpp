#include "engine.h"

#include "error.h"

#include <algorithm>

namespace draftscope {

namespace {

// The ring says that a load is going on, until it is over, also by an exception.
class Loading {
public:
    explicit Loading(EventRing & ring_) : ring(ring_) { ring.set_operation(Phase::Load, no_round); }
    ~Loading() { ring.set_operation(Phase::Idle, no_round); }
    Loading(const Loading &)             = delete;
    Loading & operator=(const Loading &) = delete;

private:
    EventRing & ring;
};

}  // namespace

Engine::Engine(void * memory, size_t size_bytes) : ring(memory, size_bytes), recorder(ring) {
    if (const size_t n = ring.size_bytes(); n < size_bytes) {
        arrays = ArrayRing(static_cast<uint8_t *>(memory) + n, size_bytes - n);
    }
    llama_backend_init();
}

Engine::~Engine() {
    unload();
}

Parts & Engine::loaded() {
    if (parts == nullptr) {
        throw EngineError("not_loaded", "No model is loaded.", "Open a GGUF file first.");
    }
    return *parts;
}

ModelReport Engine::load(const ModelSettings & settings, const Model::Progress & progress) {
    unload();
    const Loading loading(ring);
    model = std::make_unique<Model>(settings, [&](float fraction) {
        recorder.beat();
        return progress(fraction);
    });
    recorder.forget_tokens();
    describe_model();
    return report_;
}

void Engine::load_assistant(const ModelSettings & settings, const Model::Progress & progress) {
    if (model == nullptr) {
        throw EngineError("not_loaded", "No model is loaded.", "Open a GGUF file first.");
    }
    parts.reset();    // it may draft with the assistant before
    assistant.reset();
    const Loading loading(ring);
    auto fresh = std::make_unique<Model>(settings, [&](float fraction) {
        recorder.beat();
        return progress(fraction);
    });
    check_assistant(*model, *fresh);
    assistant = std::move(fresh);
    report_.speculation.n_layer_nextn = assistant->n_layer_nextn();
}

void Engine::describe_model() {
    const llama_model * m      = model->get();
    report_                    = ModelReport{};
    report_.architecture       = model->metadata("general.architecture");
    report_.size_bytes         = llama_model_size(m);
    report_.n_params           = llama_model_n_params(m);
    report_.n_layer            = llama_model_n_layer(m);
    report_.n_embd             = llama_model_n_embd(m);
    report_.n_vocab            = model->n_vocab();
    report_.n_ctx_train        = llama_model_n_ctx_train(m);
    report_.has_tokenizer      = model->has_tokenizer();
    report_.has_chat_template  = llama_model_chat_template(m, nullptr) != nullptr;
    report_.is_recurrent       = model->is_recurrent();
    report_.devices            = model->devices();
    report_.engine             = std::string("llama.cpp ") + llama_version();
    report_.is_patched         = grants_rollback("qwen3next");
    report_.speculation.n_layer_nextn = model->n_layer_nextn();
}

void Engine::unload() {
    parts.reset();
    assistant.reset();
    model.reset();
    report_ = ModelReport{};
}

ModelReport Engine::configure(const ContextSettings & settings) {
    if (model == nullptr) {
        throw EngineError("not_loaded", "No model is loaded.", "Open a GGUF file first.");
    }
    check_settings(settings);    // before anything that works is given up
    parts.reset();
    recorder.reset_counts();
    recorder.beat();
    const Loading loading(ring);
    probe_settings.faults.fill(RestoreFault::None);
    parts = std::make_unique<Parts>(*model, assistant.get(), settings, recorder, probe_settings, arrays);
    connect_cancel();

    report_.n_slots_asked = settings.n_slots;
    report_.n_slots       = static_cast<int32_t>(parts->slots.size());
    report_.n_ctx         = settings.n_ctx;
    report_.n_threads     = parts->settings.n_threads;
    report_.speculation   = parts->speculation;
    report_.way_back      = parts->way_back;
    report_.why_not_shift = parts->slot_memory->why_not_shift();
    return report_;
}

void Engine::connect_cancel() {
    for (std::atomic<bool> & flag : cancelled) {
        flag = false;
    }
    parts->round->is_cancelled = [this](int32_t slot) { return is_cancelled(slot); };
    const auto abort           = [this] { return all_in_flight_cancelled(); };
    parts->target->should_abort = abort;
    if (parts->driver != nullptr) {
        parts->driver->decoder().should_abort = abort;
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

Slot & Engine::slot_at_rest(int32_t id) {
    Parts & p = loaded();
    if (id < 0 || id >= static_cast<int32_t>(p.slots.size())) {
        throw EngineError("bad_settings", "There is no slot " + std::to_string(id) + "; the engine has " + std::to_string(p.slots.size()) + ".");
    }
    Slot & slot = *p.slots[static_cast<size_t>(id)];
    if (slot.is_active()) {
        throw EngineError("busy", "Slot " + std::to_string(id) + " is still generating.", "Wait for it or cancel it.");
    }
    return slot;
}

void Engine::check_prompt(const Task & task) const {
    if (task.prompt.empty()) {
        throw EngineError("bad_prompt", "The prompt of slot " + std::to_string(task.slot) + " is empty.", "Give it at least one token.");
    }
    if (static_cast<int32_t>(task.prompt.size()) >= parts->settings.n_ctx) {
        throw EngineError("bad_prompt", "The prompt of slot " + std::to_string(task.slot) + " has " + std::to_string(task.prompt.size()) +
                                            " tokens; a slot holds " + std::to_string(parts->settings.n_ctx) + ".",
                          "Shorten it or load with a larger context.");
    }
    for (const int32_t token : task.prompt) {
        if (token < 0 || token >= model->n_vocab()) {
            throw EngineError("bad_prompt", "Token " + std::to_string(token) + " is outside the vocabulary of " + std::to_string(model->n_vocab()) + " tokens.");
        }
    }
}

void Engine::submit(Task task) {
    const int64_t t_submitted = now_ns();
    Slot &        slot        = slot_at_rest(task.slot);
    Parts &       p           = *parts;
    check_sampling(task.sampling);
    check_range("The number of tokens to generate", task.max_tokens, 1, 1 << 24);
    check_grammar(*model, task.grammar);
    if (task.is_continuation) {
        task.prompt.insert(task.prompt.begin(), slot.tokens.begin(), slot.tokens.end());
    }
    check_prompt(task);
    if (std::none_of(p.slots.begin(), p.slots.end(), [](const auto & other) { return other->is_active(); })) {
        p.round->start_numbering();
    }
    SlotMemory::Taken taken = p.slot_memory->take_up(slot, task.prompt, task.reuse);
    p.checkpoint->begin(task.slot);
    cancelled[static_cast<size_t>(task.slot)] = false;
    slot.start(*model, std::move(task), p.settings.n_draft_max, taken.n_kept, taken.reuse, std::move(taken.logits), t_submitted);
    assert_sound();
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
            parts->slot_memory->rest(*slot, StopReason::Cancelled);
        }
    }
}

bool Engine::all_in_flight_cancelled() {
    if ((n_asked++ & 63u) == 0) {
        recorder.beat();
    }
    int32_t & n_until_cancel = parts->companion->faults.cancel;
    if (Faults::take(n_until_cancel) && n_until_cancel == 0) {
        std::for_each(in_flight.begin(), in_flight.end(), [this](const Slot * slot) { cancel(slot->id); });
    }
    // Of recurrent models an aborted decode may cost slots that are not in it their states: none that is at work, then.
    const bool all_cancelled = std::all_of(in_flight.begin(), in_flight.end(), [this](const Slot * slot) { return is_cancelled(slot->id); });
    return !in_flight.empty() && all_cancelled &&
           (!model->is_recurrent() || std::all_of(parts->slots.begin(), parts->slots.end(),
                                                  [this](const auto & slot) { return !slot->is_active() || is_cancelled(slot->id); }));
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
    for (const auto & slot : parts->slots) {
        parts->probe->settle(*slot);
    }
    assert_sound();
    const bool has_work = std::any_of(parts->slots.begin(), parts->slots.end(), [](const auto & slot) { return slot->is_active(); });
    if (!has_work) {    // else the last operation stands until the next step: who dies between two steps is not idle
        recorder.operation(Phase::Idle);
    }
    return has_work;
}

template <typename T> static void set_for(std::array<T, max_slots> & all, T value, const std::vector<int32_t> & slots) {
    if (std::any_of(slots.begin(), slots.end(), [](int32_t slot) { return slot < 0 || slot >= max_slots; })) {
        throw EngineError("bad_settings", "There is no such slot; an engine has at most " + std::to_string(max_slots) + ", counted from 0.");
    }
    if (slots.empty()) {
        all.fill(value);
    }
    for (const int32_t slot : slots) {
        all[static_cast<size_t>(slot)] = value;
    }
}

void Engine::set_probe(ProbeLevel level, const std::vector<int32_t> & slots) {
    check_range("The probe level", static_cast<double>(level), 0, static_cast<double>(ProbeLevel::State));
    set_for(probe_settings.levels, level, slots);
}

void Engine::inject_fault(RestoreFault fault, const std::vector<int32_t> & slots, int32_t layer) {
    check_range("The fault", static_cast<double>(fault), 0, static_cast<double>(RestoreFault::CompanionBehind));
    set_for(probe_settings.faults, fault, slots);
    probe_settings.layer = layer;
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
        counts.n_restores  = recorder.n_restores;
        counts.n_fallbacks = recorder.n_fallbacks;
        counts.n_prompt_saves    = recorder.n_prompt_saves;
        counts.n_prompt_restores = recorder.n_prompt_restores;
        counts.n_cache_hits      = recorder.n_cache_hits;
        counts.n_refused_states  = recorder.n_refused_states;
        counts.costs       = parts->contexts->costs;
    }
    return counts;
}

std::vector<MemoryUse> Engine::memory() const {
    return parts == nullptr ? std::vector<MemoryUse>{} : parts->memory();
}

}  // namespace draftscope
