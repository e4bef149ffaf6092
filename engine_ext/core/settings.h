// What a caller chooses. The same fields, with the same meaning, as in draftscope.engine.protocol.
#pragma once

#include "probe_records.h"

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace draftscope {

enum class CheckpointMode : uint8_t { Auto, Rollback, Cow, Device, Host };

enum class ReplayPolicy : uint8_t { Measured, Ride, Alone };

struct ModelSettings {
    std::string              path;
    int32_t                  n_gpu_layers = -1;
    std::vector<std::string> devices;    // names as ggml has them; empty: all
    bool                     use_mmap = true;
    std::vector<std::string> rpc_endpoints;    // a.b.c.d:port of servers that were asked, each once
    std::string              mtp_obstacle;    // why the MTP layers cannot be used: they are not loaded then; empty: they can
};

struct ContextSettings {
    int32_t        n_slots         = 4;
    int32_t        n_ctx           = 2048;    // tokens a slot may hold
    int32_t        n_draft_max     = 3;
    bool           use_mtp         = true;
    CheckpointMode checkpoint      = CheckpointMode::Auto;
    int32_t        n_threads       = 0;    // 0: default_threads()
    int32_t        n_batch         = 512;
    bool           catch_up_alone  = false;
    ReplayPolicy   replay          = ReplayPolicy::Measured;
    int64_t        host_room_bytes = -1;    // for recurrent states beside the live ones; -1: not known
    int64_t        state_bytes     = 0;    // of one recurrent state, as predicted from the file; 0: not known
    int64_t        prompt_checkpoints_bytes  = 0;    // host memory for prompt checkpoints of all slots; 0: none are made
    int32_t        prompt_checkpoint_spacing = 256;    // tokens between two of a slot, at most
    int64_t        prompt_cache_bytes        = 0;    // host memory for prompts that left their slots; 0: none are kept
    bool           use_hooks                 = true;    // false: hidden rows are not saved with a state, and are zero after its restore
    bool           shift                     = false;    // a full slot forgets its oldest half instead of ending its task
    std::function<bool()> keep_going;    // asked now and then while ways back are timed; false: cancelled. Empty: never
};

struct SamplingSettings {
    float    temperature      = 0.8f;
    int32_t  top_k            = 40;
    float    top_p            = 0.95f;
    float    min_p            = 0.05f;
    float    repeat_penalty   = 1.0f;
    int32_t  repeat_last_n    = 64;
    float    presence_penalty = 0.0f;
    uint32_t seed             = 0;
};

struct Task {
    int32_t                  slot = 0;
    std::vector<int32_t>     prompt;
    SamplingSettings         sampling;
    int32_t                  max_tokens = 256;
    std::vector<std::string> stop;
    bool                     ignore_eos = false;
    bool                     reuse      = true;    // take up what the slot's memory has in common with the prompt
    bool                     is_continuation = false;    // the prompt follows the tokens that the slot holds
    std::string              grammar;   // GBNF, its first rule is `root`; empty: none
};

constexpr int32_t max_slots = 64;

// How much of a restore is measured, and what it is made to do wrong, by slot; kept over all loads.
struct ProbeSettings {
    std::array<ProbeLevel, max_slots>   levels{};
    std::array<RestoreFault, max_slots> faults{};    // until contexts are made anew
    int32_t                             layer = -1;    // that SkipLayer skips, of the recurrent ones; -1: the last
};

// Throw EngineError(bad_settings) for what is out of range, or not in this version.
void check_settings(const ContextSettings & settings);
void check_sampling(const SamplingSettings & sampling);
void check_range(const char * what, double value, double low, double high);

// Threads when the caller does not say: one core stays free for the window on small machines, half the logical cores are
// taken on larger ones.
int32_t default_threads();

}  // namespace draftscope
