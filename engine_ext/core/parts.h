// The parts that work on one loaded model: contexts, companion, driver, checkpoints and slots, made together for the
// settings of one configure() and gone together.
#pragma once

#include "memory_use.h"
#include "probe.h"
#include "round.h"
#include "slot_memory.h"
#include "speculation.h"
#include "way_back.h"

#include <memory>
#include <string>
#include <vector>

namespace draftscope {

struct Parts {
    // Settings and assistant are checked already. Throws EngineError: out_of_memory, unsupported_model. Borrows all but the
    // settings of the contexts. assistant: null where there is none.
    Parts(const Model & model, const Model * assistant, const ContextSettings & settings_, Recorder & recorder, const ProbeSettings & probe_settings,
          ArrayRing & arrays);
    Parts(const Parts &)             = delete;
    Parts & operator=(const Parts &) = delete;

    ContextSettings settings;    // as granted
    Speculation     speculation;
    WayBack         way_back;

    // In the order in which they are made; they go away in reverse.
    std::unique_ptr<Decoder>           target;
    std::unique_ptr<MtpDriver>         driver;    // null: nothing is drafted
    std::unique_ptr<Companion>         companion;
    std::unique_ptr<Checkpoint>        checkpoint;
    std::unique_ptr<Contexts>          contexts;
    std::unique_ptr<Probe>             probe;
    std::unique_ptr<SlotMemory>        slot_memory;
    std::vector<std::unique_ptr<Slot>> slots;
    TargetCounts                       counts;
    std::unique_ptr<Scheduler>         scheduler;
    std::unique_ptr<Round>             round;

    std::vector<MemoryUse> memory() const;

private:
    void make_draft(const Model & model, const Model * assistant, Recorder & recorder);
    llama_context_params draft_params(bool is_shared) const;
    void measure_state(const Model & model);

    Layout  layout;
    int64_t state_bytes = 0;    // of one recurrent state, headers left out
};

}  // namespace draftscope
