// The engine: one model, its contexts and its slots. Owns all parts and moves them one bounded step at a time.
//
// Threads: one engine thread calls everything; cancel() may come from any thread.
#pragma once

#include "array_ring.h"
#include "event_ring.h"
#include "parts.h"

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace draftscope {

struct ModelReport {
    std::string              architecture;
    uint64_t                 size_bytes = 0, n_params = 0;
    int32_t                  n_layer = 0, n_embd = 0, n_vocab = 0, n_ctx_train = 0;
    bool                     has_tokenizer = false, has_chat_template = false, is_recurrent = false;
    int32_t                  n_slots_asked = 0, n_slots = 0, n_ctx = 0, n_threads = 0;
    std::vector<std::string> devices;
    Speculation              speculation;
    WayBack                  way_back;
    std::string              why_not_shift;    // why a full slot cannot forget its oldest tokens; empty: it can
    std::string              engine;    // name and version of the library
    bool                     is_patched = false;
};

struct Counts {
    TargetCounts      target;
    MtpDriver::Counts draft;
    int32_t           n_saves = 0, n_restores = 0, n_fallbacks = 0;
    int32_t           n_prompt_saves = 0, n_prompt_restores = 0, n_cache_hits = 0, n_refused_states = 0;
    CostModel         costs;
};

struct SlotFacts {
    int32_t n_tokens = 0, n_decoded = 0;    // held, and in the target's memory
    int32_t n_draft = 0, n_waiting = 0;     // in the MTP context's memory, and rows that wait for it
    int32_t n_prompt_checkpoints    = 0;
    int64_t prompt_checkpoint_bytes = 0;
};

struct ChatTemplate {
    std::string source, bos, eos;    // source empty: the file has none
};

class Engine {
public:
    // memory: an initialised ring (event_ring.h), alive as long as the engine.
    Engine(void * memory, size_t size_bytes);
    ~Engine();

    // Throw EngineError; after a failed load nothing is loaded, after a failed configure the model has no contexts.
    ModelReport load(const ModelSettings & settings, const Model::Progress & progress);
    // Beside a loaded model: the second file that drafts for it. After a failure it is as if there were none.
    void        load_assistant(const ModelSettings & settings, const Model::Progress & progress);
    ModelReport configure(const ContextSettings & settings);
    void        unload();

    ChatTemplate         chat_template() const;
    std::vector<int32_t> tokenize(const std::string & text, bool add_special, bool parse_special) const;
    std::string          piece(int32_t token) const;

    // Throws EngineError: not_loaded, bad_settings (no such slot, sampling out of range), busy, bad_prompt (empty, longer
    // than the context, token outside the vocabulary).
    void submit(Task task);

    // The next piece of work: a prompt chunk, then a round. True while any slot has work left.
    bool step();

    // Between two steps; slots empty: all. Throw EngineError(bad_settings): no such level, fault or slot.
    void set_probe(ProbeLevel level, const std::vector<int32_t> & slots);
    void inject_fault(RestoreFault fault, const std::vector<int32_t> & slots, int32_t layer);

    // Any thread; -1 for all slots. Takes effect within the current step.
    void cancel(int32_t slot);

    // Operations on a slot at rest (slot_operations.cpp). All throw EngineError, busy among others, and leave the slot as it
    // was then.
    SlotFacts            slot_facts(int32_t slot) const;
    std::vector<int32_t> slot_tokens(int32_t slot) const;
    void                 clear_slot(int32_t slot);
    void                 rewind_slot(int32_t slot, int32_t n_tokens);
    void                 fork_slot(int32_t slot, int32_t to);
    void                 shift_slot(int32_t slot, int32_t n_keep, int32_t n_discard);
    std::vector<uint8_t> save_slot(int32_t slot);    // see slot_image.h
    void                 restore_slot(int32_t slot, const std::vector<uint8_t> & bytes);
    std::vector<uint8_t> get_state(int32_t slot);    // see mtp_state.h
    void                 set_state(int32_t slot, const std::vector<uint8_t> & bytes);

    // For tests: what is wrong in any slot, as a sentence; empty when every invariant holds.
    std::string find_broken() const;

    std::vector<SlotResult> take_results();
    std::vector<int32_t>    take_new_tokens();    // ids in token records that were not in one before (since the load)
    Counts                  counts() const;
    std::vector<MemoryUse>  memory() const;    // empty when nothing is loaded or libllama does not tell

    // For tests: the next so many saves, restores and removals of a tail fail, and so on. Until the next configure().
    void inject(const Faults & faults) { loaded().companion->faults = faults; }

    // For tests: the logits (n_vocab) that the next token of a sequence of tokens has in a decode of its own, in a free
    // slot, which is empty after it. Chunks: how the tokens are cut into decodes.
    std::vector<float> logits_of(int32_t slot, const std::vector<int32_t> & tokens, const std::vector<int32_t> & chunks);

    // For tests: logits of the last token, decoded once after the slot was saved behind `n_saved` tokens, and once more
    // after it went back there (with mechanisms that drop the tail: one token further). The slot is free, and empty after it.
    std::pair<std::vector<float>, std::vector<float>> logits_after_restore(int32_t slot, const std::vector<int32_t> & tokens, int32_t n_saved);

    // For tests: one decode of several slots, (slot, tokens of it), and then drops, (slot, positions that stay).
    using DropStep = std::pair<std::vector<std::pair<int32_t, int32_t>>, std::vector<std::pair<int32_t, int32_t>>>;

    // For tests: these steps with the same tokens in every slot; a slot whose drop is refused is cleared. Returns which
    // drops were granted, and the logits of the last token in `slot` once what it lacks was decoded. All slots are free,
    // and empty after it.
    std::pair<std::vector<bool>, std::vector<float>> logits_after_drops(int32_t slot, const std::vector<int32_t> & tokens,
                                                                        const std::vector<DropStep> & steps);

private:
    void                assert_sound() const;    // debug builds: throws EngineError(internal) when find_broken() finds something
    Slot &              slot_at_rest(int32_t id);    // throws EngineError: not_loaded, bad_settings, busy
    void                check_prompt(const Task & task) const;
    Parts &             idle(int32_t slot);    // the slot is at rest, and emptied
    void                decode_part(int32_t slot, const std::vector<int32_t> & tokens, int32_t first, int32_t last);
    void                add_part(int32_t slot, const std::vector<int32_t> & tokens, int32_t first, int32_t n);
    void                decode_added();
    std::vector<float>  last_logits() const;
    void                describe_model();
    void                connect_cancel();
    std::vector<Slot *> slots_in(SlotState state);
    void                drop_cancelled();
    bool                all_in_flight_cancelled();
    bool                is_cancelled(int32_t slot) const { return cancelled[static_cast<size_t>(slot)].load(std::memory_order_relaxed); }
    Parts &             loaded();

    EventRing                                ring;
    Recorder                                 recorder;
    ArrayRing                                arrays;
    ProbeSettings                            probe_settings;
    std::unique_ptr<Model>                   model;
    std::unique_ptr<Model>                   assistant;    // null: the model drafts by itself, or not at all
    std::unique_ptr<Parts>                   parts;
    ModelReport                              report_;
    std::array<std::atomic<bool>, max_slots> cancelled{};
    std::vector<Slot *>                      in_flight;    // slots of the step being computed
    uint32_t                                 n_asked = 0;
};

}  // namespace draftscope
