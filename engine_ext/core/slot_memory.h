// What a slot's memory keeps between tasks, and how a prompt, a rewind, a fork or a saved state takes it up again. Every
// operation is mirrored to the MTP context (through Companion), leaves both in step, and is put on record.
#pragma once

#include "prompt_cache.h"
#include "reuse.h"
#include "scheduler.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace draftscope {

class SlotMemory {
public:
    // slots: all of them; borrowed.
    SlotMemory(Contexts & contexts_, const std::vector<std::unique_ptr<Slot>> & slots_);

    enum class Decode { Target, Draft };

    // ---- the end of a task

    // Forget everything that both contexts, the driver and the checkpoints hold of a slot.
    void forget(Slot & slot);
    // The task ends; what the slot holds stays for the next one. The memory is in step.
    void rest(Slot & slot, StopReason reason);
    // The same of a task that has ended by its own last token.
    void release(const Slot & slot);
    // The task ends, and its memory is of no use (a wrong or unknown state must not be reused).
    void lose(Slot & slot, StopReason reason, const std::string & error = "");
    // The same for all slots of a decode that did not succeed: one that was aborted, which only happens when every slot in
    // it was cancelled, goes back to where it was if it can. Slots that were not in it may have lost their recurrent states.
    void end_all(std::span<Slot * const> ended, DecodeStatus status, Decode decode, const char * what);

    // ---- the beginning of a task

    struct Taken {
        int32_t n_kept = 0;    // tokens of the prompt that are in memory already
        Reuse   reuse  = Reuse::None;
        std::vector<float> logits;    // of the first token, where all of the prompt was kept; else empty
    };
    // Bring the slot to the longest part that it, a prompt checkpoint or the prompt cache has in common with the prompt.
    Taken take_up(Slot & slot, const std::vector<int32_t> & prompt, bool may_reuse);

    // ---- prompt checkpoints, between two decodes of a slot

    // How many tokens may be decoded before the slot is to be saved.
    int32_t until_due(const Slot & slot) const;
    void    save_if_due(Slot & slot);
    // The end of a prompt, where the same prompt goes on from when it comes again: it is saved with the logits of its last
    // token, so that no decode need be cut in front of that token. logits: those of a whole vocabulary, borrowed.
    void    save_prompt(Slot & slot, const float * logits);

    // ---- operations on a slot at rest; they throw EngineError and change nothing then, unless said otherwise

    void clear(Slot & slot);
    // Back to the first n tokens: what is behind them is forgotten. Throws bad_settings.
    void rewind(Slot & slot, int32_t n_tokens);
    // Forget the tokens from n_keep to n_keep + n_discard and move those behind them up. Throws unsupported, bad_settings.
    void shift(Slot & slot, int32_t n_keep, int32_t n_discard);
    // Why the memory cannot be shifted, as a sentence; empty: it can.
    std::string why_not_shift() const;
    // All that the slot is. Throws bad_state (the slot is empty), out_of_memory.
    SlotImage image(const Slot & slot, Operation operation) const;
    // Make the slot that. Throws bad_state when libllama refuses it, out_of_memory; the slot is as before then.
    void put(Slot & slot, SlotImage image, Operation operation);
    std::vector<uint8_t> state(const Slot & slot) const;    // hidden rows: see mtp_state.h; throws unsupported
    // Throws bad_state; empty bytes are taken: the rows are zero then.
    void set_state(const Slot & slot, const std::vector<uint8_t> & bytes);

    // What is not as it must be after every operation, as a sentence; empty: all is well.
    std::string find_broken(const Slot & slot) const;

    int64_t checkpoint_bytes() const { return checkpoints.size_bytes(); }
    int64_t cache_bytes() const { return cache.size_bytes(); }
    const PromptCheckpoints & prompt_checkpoints() const { return checkpoints; }

private:
    Past  past_of(const Slot & slot) const;
    bool  recover(Slot & slot, Decode decode);
    void  distrust(Slot & slot);
    bool  carry_out(Slot & slot, ReusePlan & plan, RestoreKind kind = RestoreKind::Prompt);
    bool  step_back(Slot & slot, ReusePlan & plan);
    bool  restore(Slot & slot, const PromptCheckpoint & checkpoint, RestoreKind kind = RestoreKind::Prompt);
    void  take_rows(const Slot & slot, MtpState rows);
    SlotImage capture(const Slot & slot) const;
    bool  place(Slot & slot, SlotImage image, Operation operation);
    void  save(Slot & slot, std::span<const float> logits = {});
    void  swap_in(Slot & slot, const std::vector<int32_t> & prompt, ReusePlan & plan, Reuse & how);
    void  store(const Slot & slot);
    bool  needs_checkpoints() const { return !contexts.drops_any_tail && checkpoints.fits(1); }
    int32_t n_known(const Slot & slot) const;
    int32_t n_least(int32_t first) const;

    Contexts &        contexts;
    const std::vector<std::unique_ptr<Slot>> & slots;
    PromptCheckpoints checkpoints;
    PromptCache       cache;
};

}  // namespace draftscope
