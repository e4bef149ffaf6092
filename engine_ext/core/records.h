// Records of a trace and their enums. The contract is draftscope/engine/events.py; a test compares the two.
#pragma once

#include <cstdint>

namespace draftscope {

enum class Kind : uint8_t { Span = 1, Round = 2, Token = 3, Save = 4, Restore = 5, Fallback = 6, Slot = 7, Operation = 8, Row = 9 };

enum class Phase : uint8_t {
    Idle = 0, Prompt = 1, Draft = 2, Save = 3, Verify = 4, Accept = 5, Restore = 6, Replay = 7, CatchUp = 8, Load = 9, Probe = 10,
};

enum class Origin : uint8_t { Sampled = 0, Accepted = 1, Rejected = 2 };

enum class Mechanism : uint8_t { None = 0, KvRemoval = 1, Rollback = 2, Cow = 3, Device = 4, Host = 5 };

enum class SlotState : uint8_t { Idle = 0, Prompt = 1, Generating = 2, Done = 3 };

enum class StopReason : uint8_t {
    None = 0, EndOfGeneration = 1, MaxTokens = 2, StopString = 3, Cancelled = 4, ContextFull = 5, Failed = 6,
};

enum class FallbackReason : uint8_t {
    None = 0, NotGranted = 1, BeyondReach = 2, Refused = 3, NoMemory = 4, RestoreFailed = 5, PositionMismatch = 6, CannotUnify = 7,
};

// What was done to a slot beside rounds.
enum class Operation : uint8_t {
    Submit = 1, Cancel = 2, Release = 3, Clear = 4, PromptSave = 5, PromptRestore = 6, CacheStore = 7, CacheTake = 8, SlotSave = 9, SlotRestore = 10,
    Shift = 11, Rewind = 12, Fork = 13, StateRefused = 14, PromptEvict = 15,
};

// What became of the memory that a slot had when a prompt came.
enum class Reuse : uint8_t {
    None = 0, Kept = 1, TailDropped = 2, Restored = 3, Cached = 4, NothingCommon = 5, NoCheckpoint = 6, TurnedOff = 7, Refused = 8, Shifted = 9,
};

constexpr int32_t no_round     = -1;
constexpr int16_t engine_track = -1;

#pragma pack(push, 1)
struct Record {
    uint64_t sequence    = 0;
    int64_t  t_start_ns  = 0;
    int64_t  duration_ns = 0;
    int32_t  round       = no_round;
    int16_t  slot        = engine_track;
    uint8_t  kind        = 0;
    uint8_t  code        = 0;
    int32_t  position    = 0;
    int32_t  token       = -1;
    int32_t  n           = 0;
    int32_t  m           = 0;
    double   value       = 0;
    int64_t  size_bytes  = 0;
};
#pragma pack(pop)
static_assert(sizeof(Record) == 64);

}  // namespace draftscope
