#include "saved_state.h"

#include <algorithm>
#include <utility>

namespace draftscope {

namespace {

Companion::Place memory_of(Mechanism place) {
    return place == Mechanism::Device ? Companion::Place::Device : Companion::Place::Host;
}

}  // namespace

SavedState::SavedState(Mechanism kind_, Companion & companion_, Recorder & recorder_, int32_t n_slots)
    : kind(kind_), companion(companion_), recorder(recorder_), entries(static_cast<size_t>(n_slots)) {
    for (Entry & entry : entries) {
        entry.place = kind;
    }
}

bool SavedState::save(const Slot & slot) {
    const int64_t t_start = now_ns();
    Entry &       entry   = at(slot.id);
    entry.position        = -1;    // whatever was saved before may be overwritten from here on
    entry.epoch++;
    entry.size_bytes = companion.state_bytes(slot.id);
    choose_place(slot, entry);
    if (!put(slot.id, entry)) {
        return false;
    }
    entry.position = slot.n_decoded;
    recorder.save(slot.id, entry.place, t_start, entry.position, entry.epoch, entry.size_bytes);
    return true;
}

// Device memory that is not held yet is tried first. Where there is none, the slot stays with the host until its task ends.
void SavedState::choose_place(const Slot & slot, Entry & entry) {
    if (entry.place == Mechanism::Device && !entry.is_on_device && !companion.has_device_room(entry.size_bytes)) {
        recorder.fallback(slot.id, FallbackReason::NoMemory, slot.n_decoded, Mechanism::Device, Mechanism::Host);
        entry.place = Mechanism::Host;
    }
}

bool SavedState::put(int32_t slot, Entry & entry) {
    if (entry.place == Mechanism::Cow) {
        companion.share_state(slot);
        return true;
    }
    entry.blob = companion.save_state(slot, memory_of(entry.place), std::move(entry.blob));
    entry.is_on_device |= entry.place == Mechanism::Device && !entry.blob.empty();
    entry.most_host_bytes = std::max(entry.most_host_bytes, static_cast<int64_t>(entry.blob.capacity()));
    return !entry.blob.empty();
}

FallbackReason SavedState::go_back(Slot & slot, int32_t n_keep) {
    const int64_t t_start = now_ns();
    const Entry & entry   = at(slot.id);
    if (entry.position < 0 || entry.position > n_keep) {
        return FallbackReason::BeyondReach;
    }
    if (!take(slot.id, entry)) {
        return FallbackReason::RestoreFailed;
    }
    slot.n_decoded = entry.position;
    recorder.restore(slot.id, entry.place, t_start, entry.position, entry.epoch, n_keep - entry.position, entry.size_bytes);
    return FallbackReason::None;
}

bool SavedState::take(int32_t slot, const Entry & entry) {
    if (entry.place == Mechanism::Cow) {
        return companion.take_back_state(slot, entry.position);
    }
    return companion.can_take(slot, entry.size_bytes) && companion.restore_state(slot, entry.blob, memory_of(entry.place), entry.position);
}

void SavedState::discard(int32_t slot) {
    at(slot).position = -1;
    at(slot).blob     = std::vector<uint8_t>();    // a mere {} would keep its memory
}

SavedBytes SavedState::saved_bytes() const {
    SavedBytes bytes;
    for (const Entry & entry : entries) {
        bytes.host += entry.most_host_bytes;
        bytes.device += entry.is_on_device ? entry.size_bytes : 0;
    }
    return bytes;
}

}  // namespace draftscope
