#include "checkpoint.h"

#include "saved_state.h"

namespace draftscope {

namespace {

// Plain KV memory and native rollback: the library drops the tail, nothing is saved and nothing replayed. A slot that was
// refused a rollback saves its states on the host from then on, until its task ends.
class TailRemoval final : public Checkpoint {
public:
    TailRemoval(Mechanism mechanism_, Companion & companion_, Recorder & recorder_, int32_t n_slots)
        : kind(mechanism_), companion(companion_), recorder(recorder_), is_refused(static_cast<size_t>(n_slots)),
          second(Mechanism::Host, companion_, recorder_, n_slots) {}

    Mechanism mechanism() const override { return kind; }
    Mechanism mechanism_of(int32_t slot) const override { return saves(slot) ? second.mechanism_of(slot) : kind; }
    bool      saves(int32_t slot) const override { return is_refused[static_cast<size_t>(slot)]; }
    bool      holds(const Slot & slot) const override { return !saves(slot.id) || second.holds(slot); }
    bool      save(const Slot & slot) override { return second.save(slot); }
    void      discard(int32_t slot) override { second.discard(slot); }

    void begin(int32_t slot) override {
        is_refused[static_cast<size_t>(slot)] = false;
        second.begin(slot);
    }

    SavedBytes saved_bytes() const override { return second.saved_bytes(); }

    FallbackReason go_back(Slot & slot, int32_t n_keep) override {
        if (saves(slot.id)) {
            return second.go_back(slot, n_keep);
        }
        const int64_t t_start = now_ns();
        if (!companion.drop_tail(slot.id, n_keep)) {
            is_refused[static_cast<size_t>(slot.id)] = kind == Mechanism::Rollback;
            return FallbackReason::Refused;
        }
        slot.n_decoded = n_keep;
        recorder.restore(slot.id, kind, t_start, n_keep, 0, 0, 0);
        return FallbackReason::None;
    }

private:
    Mechanism         kind;
    Companion &       companion;
    Recorder &        recorder;
    std::vector<bool> is_refused;    // by slot
    SavedState        second;
};

}  // namespace

std::unique_ptr<Checkpoint> make_checkpoint(Mechanism mechanism, Companion & companion, Recorder & recorder, int32_t n_slots) {
    if (mechanism == Mechanism::Host || mechanism == Mechanism::Device || mechanism == Mechanism::Cow) {
        return std::make_unique<SavedState>(mechanism, companion, recorder, n_slots);
    }
    return std::make_unique<TailRemoval>(mechanism, companion, recorder, n_slots);
}

}  // namespace draftscope
