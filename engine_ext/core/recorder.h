// Writes records by kind. One object for the whole engine; engine thread only.
#pragma once

#include "event_ring.h"
#include "probe_records.h"

#include <utility>
#include <vector>

namespace draftscope {

class Recorder {
public:
    explicit Recorder(EventRing & ring_) : ring(ring_) {}

    int32_t round = no_round;    // the round that records belong to; set by Round
    // Recorded since reset_counts().
    int32_t n_saves = 0, n_restores = 0, n_fallbacks = 0;
    int32_t n_prompt_saves = 0, n_prompt_restores = 0, n_cache_hits = 0, n_refused_states = 0;
    void    reset_counts() {
        n_saves = n_restores = n_fallbacks = 0;
        n_prompt_saves = n_prompt_restores = n_cache_hits = n_refused_states = 0;
    }

    // A stretch of time ending now. Engine track: position is the draft step, m the graph runs.
    void span(Phase phase, int slot, int64_t t_start_ns, int position, int n, int m);
    // Ends now; value: tokens per second of the slot so far.
    void round_done(int slot, Mechanism mechanism, int64_t t_start_ns, int n_tokens, int n_drafted, int n_accepted, double tokens_per_second);
    void token(int slot, Origin origin, int position, int token, int draft_position, int chosen_instead, double probability);
    // Both end now, and also appear as spans of the slot.
    void save(int slot, Mechanism mechanism, int64_t t_start_ns, int position, int epoch, int64_t size_bytes);
    void restore(int slot, Mechanism mechanism, int64_t t_start_ns, int position, int epoch, int n_replay, int64_t size_bytes);
    void fallback(int slot, FallbackReason reason, int position, Mechanism asked, Mechanism used);
    // Ends now. n: tokens kept, reused or forgotten; n_tokens: in the slot after it; n_common: of a prompt, -1 where nobody compared.
    void slot_operation(int slot, Operation operation, int64_t t_start_ns, int n_tokens, int n, Reuse reuse, int64_t size_bytes, int n_common = -1);
    // Ends now: the row that a draft starts from, which should be that of `position`, is that of `found`.
    void row(int slot, RestoreFault fault, int64_t t_start_ns, int position, int found, int n_waiting);
    void slot_state(int slot, SlotState state, int n_tokens, StopReason reason, int n_generated);

    // A token that side arrays name: its text is to be announced like those of records. -1: none.
    void meet(int32_t token);
    // Tokens of records since the last call that no record named before forget_tokens(): their text is to be announced.
    std::vector<int32_t> take_new_tokens() { return std::exchange(new_tokens, {}); }
    void                 forget_tokens();

    void operation(Phase phase) { ring.set_operation(phase, round); }
    void beat() { ring.beat(); }

private:
    Record make(Kind kind, uint8_t code, int slot, int64_t t_start_ns, int position) const;

    EventRing &          ring;
    std::vector<bool>    met;    // by token id
    std::vector<int32_t> new_tokens;
};

}  // namespace draftscope
