// What probes of restores report: the same structs, numbers and columns as draftscope.engine.probes.
#pragma once

#include "records.h"

#include <cstdint>
#include <limits>

namespace draftscope {

enum class ProbeLevel : uint8_t { Off, Hidden, Logits, State };

enum class RestoreFault : uint8_t { None, OmitHook, ZeroRow, StaleRow, SkipLayer, CompanionBehind };

enum class RestoreKind : uint8_t { Rejection = 1, Prompt = 2, Cache = 3, Slot = 4, Fork = 5, Rewind = 6 };

enum class StateStatus : uint8_t { NotProbed = 0, Equal = 1, Differs = 2, UnknownLayout = 3, NoRecurrentLayers = 4, NoReference = 5, Rounding = 6 };

enum class ArrayKind : uint32_t { Result = 0, Rows = 1, Fingerprints = 2, DraftTokens = 3, TopTokens = 4, TopLogits = 5, TopProbabilities = 6, Layers = 7 };

constexpr int32_t unknown_position = -1;
constexpr int32_t zero_row         = -2;

// How a pending row compares with the saved one.
#pragma pack(push, 1)
struct ProbeResult {
    static constexpr double nan = std::numeric_limits<double>::quiet_NaN();

    int64_t     t_start_ns             = 0;
    int64_t     duration_ns            = 0;
    int64_t     state_bytes            = 0;
    double      restored_max_abs       = nan, restored_rms = nan, restored_cosine = nan;
    double      without_max_abs        = nan, without_rms = nan, without_cosine = nan;
    double      restored_logit_max_abs = nan, restored_kl = nan;
    double      without_logit_max_abs  = nan, without_kl = nan;
    double      saved_top_p            = nan, restored_top_p = nan, without_top_p = nan;
    double      state_max_abs          = nan, state_rms = nan, state_scatter = nan;
    int32_t     round                  = no_round;
    int32_t     position               = 0;
    int32_t     n_replay               = 0;
    int32_t     row_position           = -1;
    int32_t     restored_position      = unknown_position;
    int32_t     without_position       = unknown_position;
    int32_t     row_width              = 0;
    int32_t     restored_n_differing   = -1, restored_worst = -1;
    int32_t     without_n_differing    = -1, without_worst = -1;
    int32_t     companion_n            = -1;
    int32_t     companion_expected     = -1;
    int32_t     companion_n_wrong      = -1;
    int32_t     companion_first_wrong  = -1;
    int32_t     n_vocab                = 0;
    int32_t     n_draft                = 0;
    int32_t     restored_n_changed     = -1, without_n_changed = -1;
    int32_t     saved_top              = -1, restored_top = -1, without_top = -1;
    int32_t     restored_n_same        = -1, without_n_same = -1;
    int32_t     n_followed             = -1;
    int32_t     saved_accepted         = -1, restored_accepted = -1, without_accepted = -1;
    int32_t     n_layers               = 0;
    int32_t     n_layers_differing     = -1;
    int32_t     worst_layer            = -1;
    int16_t     slot                   = 0;
    uint8_t     level                  = 0;
    RestoreKind kind                   = RestoreKind::Rejection;
    Mechanism   mechanism              = Mechanism::None;
    uint8_t     fault                  = 0;
    StateStatus state_status           = StateStatus::NotProbed;
    uint8_t     worst_part             = 0;
};
#pragma pack(pop)
static_assert(sizeof(ProbeResult) == 284);

}  // namespace draftscope
