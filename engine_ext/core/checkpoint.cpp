#include "checkpoint.h"

namespace draftscope {

namespace {

// Plain KV memory and native rollback: the library drops the tail, nothing is saved and nothing replayed.
class TailRemoval final : public Checkpoint {
public:
    TailRemoval(Mechanism mechanism_, Companion & companion_, Recorder & recorder_)
        : kind(mechanism_), companion(companion_), recorder(recorder_) {}

    Mechanism mechanism() const override { return kind; }
    bool      saves() const override { return false; }
    bool      holds(const Slot &) const override { return true; }
    bool      save(const Slot &) override { return true; }
    void      discard(int32_t) override {}

    FallbackReason go_back(Slot & slot, int32_t n_keep) override {
        const int64_t t_start = now_ns();
        if (!companion.drop_tail(slot.id, n_keep)) {
            return FallbackReason::Refused;
        }
        slot.n_decoded = n_keep;
        recorder.restore(slot.id, kind, t_start, n_keep, 0, 0, 0);
        return FallbackReason::None;
    }

private:
    Mechanism   kind;
    Companion & companion;
    Recorder &  recorder;
};

// The recurrent state in host memory: saved before the draft is verified, put back after a rejection; the tokens between
// are decoded again.
class HostCheckpoint final : public Checkpoint {
public:
    HostCheckpoint(Companion & companion_, Recorder & recorder_, int32_t n_slots)
        : companion(companion_), recorder(recorder_), saved(static_cast<size_t>(n_slots)) {}

    Mechanism mechanism() const override { return Mechanism::Host; }
    bool      saves() const override { return true; }

    bool holds(const Slot & slot) const override { return at(slot.id).position == slot.n_decoded; }

    bool save(const Slot & slot) override {
        const int64_t t_start = now_ns();
        Saved &       entry   = at(slot.id);
        entry.state           = companion.save_state(slot.id);
        entry.position        = entry.state.empty() ? -1 : slot.n_decoded;
        entry.epoch++;
        if (entry.state.empty()) {
            return false;
        }
        recorder.save(slot.id, Mechanism::Host, t_start, entry.position, entry.epoch, static_cast<int64_t>(entry.state.size()));
        return true;
    }

    FallbackReason go_back(Slot & slot, int32_t n_keep) override {
        const int64_t t_start = now_ns();
        const Saved & entry   = at(slot.id);
        if (entry.position < 0 || entry.position > n_keep) {
            return FallbackReason::BeyondReach;
        }
        if (!companion.restore_state(slot.id, entry.state, entry.position)) {
            return FallbackReason::RestoreFailed;
        }
        slot.n_decoded = entry.position;
        recorder.restore(slot.id, Mechanism::Host, t_start, entry.position, entry.epoch, n_keep - entry.position,
                         static_cast<int64_t>(entry.state.size()));
        return FallbackReason::None;
    }

    void discard(int32_t slot) override {
        at(slot).position = -1;
        at(slot).state    = {};
    }

private:
    struct Saved {
        std::vector<uint8_t> state;
        int32_t              position = -1;    // -1: nothing saved
        int32_t              epoch    = 0;
    };
    Saved &       at(int32_t slot) { return saved[static_cast<size_t>(slot)]; }
    const Saved & at(int32_t slot) const { return saved[static_cast<size_t>(slot)]; }

    Companion &        companion;
    Recorder &         recorder;
    std::vector<Saved> saved;
};

std::string steps(int32_t n) {
    return std::to_string(n) + (n == 1 ? " step" : " steps");
}

}  // namespace

WayBack choose_way_back(CheckpointMode asked, int32_t n_rs_seq_asked, int32_t n_draft_max, const Decoder & target, bool can_drop_tail) {
    WayBack way;
    way.asked            = asked;
    way.n_rs_seq_asked   = n_rs_seq_asked;
    way.n_rs_seq_granted = n_rs_seq_asked > 0 ? static_cast<int32_t>(llama_n_rs_seq(target.context())) : 0;
    if (way.n_rs_seq_granted >= n_draft_max && n_draft_max > 0) {
        way.granted = Mechanism::Rollback;
        way.why     = "The model's recurrent memory steps back by itself, up to " + steps(way.n_rs_seq_granted) + ".";
    } else if (can_drop_tail) {
        way.granted = Mechanism::KvRemoval;
        way.why     = "The model's memory can drop its newest tokens, so no checkpoints are needed.";
    } else {
        way.granted = Mechanism::Host;
        way.why     = asked == CheckpointMode::Host ? "Asked for: recurrent states are saved in host memory."
                                                    : "This llama.cpp grants this architecture no native rollback (" +
                                                          steps(way.n_rs_seq_asked) + " asked, " + std::to_string(way.n_rs_seq_granted) +
                                                          " granted), so recurrent states are saved in host memory.";
    }
    return way;
}

std::unique_ptr<Checkpoint> make_checkpoint(Mechanism mechanism, Companion & companion, Recorder & recorder, int32_t n_slots) {
    if (mechanism == Mechanism::Host) {
        return std::make_unique<HostCheckpoint>(companion, recorder, n_slots);
    }
    return std::make_unique<TailRemoval>(mechanism, companion, recorder);
}

}  // namespace draftscope
