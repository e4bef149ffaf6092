// Checkpoints that keep the recurrent state: in host memory, in device memory (libllama holds one state a slot there), or
// shared with a spare sequence. Saved before a draft is verified and put back after a rejection; the tokens between are
// decoded again.
#pragma once

#include "checkpoint.h"

#include <vector>

namespace draftscope {

class SavedState final : public Checkpoint {
public:
    // kind: Host, Device, or Cow, which needs a companion with spare sequences.
    SavedState(Mechanism kind, Companion & companion, Recorder & recorder, int32_t n_slots);

    Mechanism      mechanism() const override { return kind; }
    Mechanism      mechanism_of(int32_t slot) const override { return at(slot).place; }
    bool           saves(int32_t) const override { return true; }
    bool           holds(const Slot & slot) const override { return at(slot.id).position == slot.n_decoded; }
    bool           save(const Slot & slot) override;
    FallbackReason go_back(Slot & slot, int32_t n_keep) override;
    void           discard(int32_t slot) override;
    void           begin(int32_t slot) override { at(slot).place = kind; }
    SavedBytes     saved_bytes() const override;

private:
    struct Entry {
        int64_t              most_host_bytes = 0;
        std::vector<uint8_t> blob;    // of a device state without its tensors; empty for cow
        Mechanism            place;
        int32_t              position     = -1;    // -1: nothing saved that may be restored
        int32_t              epoch        = 0;
        int64_t              size_bytes   = 0;
        bool                 is_on_device = false;    // libllama holds device memory for this slot, and uses it again
    };
    Entry &       at(int32_t slot) { return entries[static_cast<size_t>(slot)]; }
    const Entry & at(int32_t slot) const { return entries[static_cast<size_t>(slot)]; }

    void choose_place(const Slot & slot, Entry & entry);
    bool put(int32_t slot, Entry & entry);
    bool take(int32_t slot, const Entry & entry);

    Mechanism          kind;
    Companion &        companion;
    Recorder &         recorder;
    std::vector<Entry> entries;
};

}  // namespace draftscope
