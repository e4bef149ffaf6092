// The engine: one model, its contexts and its slots. Owns all parts and moves them one bounded step at a time.
//
// Threads: one engine thread calls everything; cancel() may come from any thread.
#pragma once

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
    std::string              engine;    // name and version of the library
    bool                     is_patched = false;
};

struct Counts {
    TargetCounts      target;
    MtpDriver::Counts draft;
    int32_t           n_saves = 0, n_restores = 0, n_fallbacks = 0;
    CostModel         costs;
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

    // Any thread; -1 for all slots. Takes effect within the current step.
    void cancel(int32_t slot);

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
    Parts &             idle(int32_t slot);    // the slot is free; throws EngineError(busy) otherwise
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
    std::unique_ptr<Model>                   model;
    std::unique_ptr<Parts>                   parts;
    ModelReport                              report_;
    std::array<std::atomic<bool>, max_slots> cancelled{};
    std::vector<Slot *>                      in_flight;    // slots of the step being computed
    uint32_t                                 n_asked = 0;
};

}  // namespace draftscope
