// Makes the target context in the layout of the way back that is granted.
#pragma once

#include "cost_model.h"
#include "decoder.h"
#include "model.h"
#include "way_back.h"

#include <memory>

namespace draftscope {

// The same parameters for the context that runs and for those that calibration makes. n_ctx_slot: token places of a slot;
// settings: n_slots, n_draft_max, n_batch and n_threads as granted.
llama_context_params target_params(const ContextSettings & settings, const Layout & layout, int32_t n_ctx_slot, bool is_drafting);

struct TargetContext {
    std::unique_ptr<Decoder> decoder;
    Layout                   layout;
    WayBack                  way_back;
    CostModel                costs;    // of its decodes, as far as calibration has seen them
};

// Settings as granted. Ways are tried in their order until one can be had: the measured one for `auto`, and where rollback
// was asked for and is not granted; else the one asked for and those behind it.
// Throws EngineError: out_of_memory; unsupported_model (no memory of tokens).
TargetContext make_target(const Model & model, const ContextSettings & settings, bool is_drafting);

}  // namespace draftscope
