#include "recorder.h"

#include <algorithm>
#include <limits>

namespace draftscope {

namespace {
constexpr double nothing = std::numeric_limits<double>::quiet_NaN();
}

Record Recorder::make(Kind kind, uint8_t code, int slot, int64_t t_start_ns, int position) const {
    Record record;
    record.t_start_ns  = t_start_ns;
    record.duration_ns = 0;
    record.round       = round;
    record.slot        = static_cast<int16_t>(slot);
    record.kind        = static_cast<uint8_t>(kind);
    record.code        = code;
    record.position    = position;
    record.value       = nothing;
    return record;
}

void Recorder::span(Phase phase, int slot, int64_t t_start_ns, int position, int n, int m) {
    Record record      = make(Kind::Span, static_cast<uint8_t>(phase), slot, t_start_ns, position);
    record.duration_ns = now_ns() - t_start_ns;
    record.n           = n;
    record.m           = m;
    ring.push(record);
}

void Recorder::round_done(int slot, Mechanism mechanism, int64_t t_start_ns, int n_tokens, int n_drafted, int n_accepted,
                          double tokens_per_second) {
    Record record      = make(Kind::Round, static_cast<uint8_t>(mechanism), slot, t_start_ns, n_tokens);
    record.duration_ns = now_ns() - t_start_ns;
    record.n           = n_drafted;
    record.m           = n_accepted;
    record.value       = tokens_per_second;
    ring.push(record);
}

void Recorder::token(int slot, Origin origin, int position, int token, int draft_position, int chosen_instead, double probability) {
    Record record = make(Kind::Token, static_cast<uint8_t>(origin), slot, now_ns(), position);
    record.token  = token;
    record.n      = draft_position;
    record.m      = chosen_instead;
    record.value  = probability;
    ring.push(record);
    meet(token);
    meet(chosen_instead);
}

void Recorder::meet(int32_t token) {
    if (token < 0) {
        return;
    }
    if (const auto id = static_cast<size_t>(token); id >= met.size() || !met[id]) {
        met.resize(std::max(met.size(), id + 1));
        met[id] = true;
        new_tokens.push_back(token);
    }
}

void Recorder::forget_tokens() {
    met.clear();
    new_tokens.clear();
}

void Recorder::save(int slot, Mechanism mechanism, int64_t t_start_ns, int position, int epoch, int64_t size_bytes) {
    Record record      = make(Kind::Save, static_cast<uint8_t>(mechanism), slot, t_start_ns, position);
    record.duration_ns = now_ns() - t_start_ns;
    record.n           = epoch;
    record.size_bytes  = size_bytes;
    n_saves++;
    ring.push(record);
    span(Phase::Save, slot, t_start_ns, position, 0, 0);
}

void Recorder::restore(int slot, Mechanism mechanism, int64_t t_start_ns, int position, int epoch, int n_replay, int64_t size_bytes) {
    Record record      = make(Kind::Restore, static_cast<uint8_t>(mechanism), slot, t_start_ns, position);
    record.duration_ns = now_ns() - t_start_ns;
    record.n           = epoch;
    record.m           = n_replay;
    record.size_bytes  = size_bytes;
    n_restores++;
    ring.push(record);
    span(Phase::Restore, slot, t_start_ns, position, n_replay, 0);
}

void Recorder::fallback(int slot, FallbackReason reason, int position, Mechanism asked, Mechanism used) {
    Record record = make(Kind::Fallback, static_cast<uint8_t>(reason), slot, now_ns(), position);
    record.n      = static_cast<int32_t>(asked);
    record.m      = static_cast<int32_t>(used);
    n_fallbacks++;
    ring.push(record);
}

void Recorder::slot_operation(int slot, Operation operation, int64_t t_start_ns, int n_tokens, int n, Reuse reuse, int64_t size_bytes, int n_common) {
    Record record      = make(Kind::Operation, static_cast<uint8_t>(operation), slot, t_start_ns, n_tokens);
    record.duration_ns = now_ns() - t_start_ns;
    record.n           = n;
    record.m           = static_cast<int32_t>(reuse);
    record.size_bytes  = size_bytes;
    if (n_common >= 0) {
        record.value = n_common;
    }
    ring.push(record);
}

void Recorder::row(int slot, RestoreFault fault, int64_t t_start_ns, int position, int found, int n_waiting) {
    Record record      = make(Kind::Row, static_cast<uint8_t>(fault), slot, t_start_ns, position);
    record.duration_ns = now_ns() - t_start_ns;
    record.n           = found;
    record.m           = n_waiting;
    ring.push(record);
}

void Recorder::slot_state(int slot, SlotState state, int n_tokens, StopReason reason, int n_generated) {
    Record record = make(Kind::Slot, static_cast<uint8_t>(state), slot, now_ns(), n_tokens);
    record.n      = static_cast<int32_t>(reason);
    record.m      = n_generated;
    ring.push(record);
}

}  // namespace draftscope
