// Who joins the next batch: prompts in chunks, a fair share for each slot that has one.
#pragma once

#include "checkpoint.h"
#include "cost_model.h"
#include "mtp_driver.h"
#include "slot.h"

#include <span>
#include <vector>

namespace draftscope {

class Probe;
class SlotMemory;

// What all steps work on. Borrowed from the engine, which owns the parts.
struct Contexts {
    const Model &    model;
    ContextSettings  settings;
    Decoder &        target;
    MtpDriver *      driver;    // null: nothing is drafted
    Companion &      companion;
    Checkpoint &     checkpoint;
    Recorder &       recorder;

    CostModel costs = {};

    SlotMemory * memory = nullptr;    // what slots keep; set once it is made, which needs the rest

    Probe * probe = nullptr;    // measures restores; the same

    // Whether the target's memory can drop positions from anywhere on: no recurrent states, and no windows that forget.
    bool drops_any_tail = false;

    int32_t n_steps_back = 0;    // of native rollback
    int32_t ends_at      = 0;    // tokens at which a task ends for want of room; never reached where contexts are shifted

    // Whether the keys of all slots are in one buffer; else libllama cuts decodes where slot numbers have gaps.
    bool is_unified = false;

    // Whether the recurrent states of all generating slots lie in the order of the slots (Round::parts()).
    bool is_in_order = false;
};

// Decode calls on the target and the graphs computed for them.
struct TargetCounts {
    int32_t rounds = 0, target = 0, replay = 0, rides = 0, prompt = 0;
    int64_t target_graph_runs = 0, prompt_graph_runs = 0;
};

// Decode the target's batch as this phase: timed, counted, recorded on the engine track.
[[nodiscard]] DecodeStatus decode_target(Contexts & contexts, TargetCounts & counts, Phase phase);

class Scheduler {
public:
    Scheduler(Contexts & contexts_, TargetCounts & counts_) : contexts(contexts_), counts(counts_) {}

    // One chunk of the prompts of these slots (all in state Prompt). Slots whose prompt is complete sample their first
    // token and begin to generate.
    void prefill(std::span<Slot * const> slots);

private:
    struct Share {
        Slot *  slot;
        int32_t n;        // tokens in this chunk
        int32_t first;    // batch index of the first
    };
    void               prefill_chunk(std::span<Slot * const> slots);
    std::vector<Share> fill_batch(std::span<Slot * const> slots);
    void               finish_chunk(const Share & share, int64_t t_start_ns);
    // The prompt is complete; index: batch index of its last token, -1 where it was in memory as a whole.
    void begin(Slot & slot, int32_t index);

    Contexts &     contexts;
    TargetCounts & counts;
};

}  // namespace draftscope
