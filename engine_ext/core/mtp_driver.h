// The shared MTP context: for all slots together, k decodes make a draft of k tokens. The first decode also carries the
// catch-up rows, the true tokens accepted since the last draft with the target's hidden rows.
//
// Chained heads: step i decodes with head i, whose layer has keys and values of its own, and libllama fills those of the
// chosen head only. So every step carries the catch-up rows and what was drafted before it: its positions are dropped and
// decoded again, in the same places. After k steps k heads know all true tokens, without a decode spent on catching up.
//
// Assistant: it reads the target's keys, so it has no rows to catch up with, and drafts every token at one position.
//
// A row of the MTP context is (token at position p, hidden row of position p - 1). Rows wait here until they are decoded;
// the last one, the pending row, belongs to the newest accepted position and pairs with the sampled token.
#pragma once

#include "companion.h"
#include "mtp_state.h"
#include "recorder.h"
#include "slot.h"
#include "speculation.h"

#include <optional>
#include <span>
#include <vector>

namespace draftscope {

class MtpDriver {
public:
    // Takes over a context of type MTP. Finds out which rows its architecture returns; every slot of it is empty then.
    MtpDriver(std::unique_ptr<Decoder> draft, const Speculation & plan, Recorder & recorder, int32_t n_slots, int32_t n_vocab);

    Decoder & decoder() { return *draft; }

    // A new sequence: nothing decoded, and the pending row is zero (never that of the request before).
    void begin(int32_t slot);

    // Copy hidden rows of the target's last decode: those of `count` positions from batch index `first` on.
    void take_rows(int32_t slot, const Decoder & target, int32_t first, int32_t count);

    // Decode the waiting rows, all but the pending one, without drafting: those of prompts (Phase::Prompt), or in decodes
    // of their own (Phase::CatchUp), one for each head that is driven. A prompt chunk and what an earlier task left may be
    // more than one decode takes.
    [[nodiscard]] DecodeStatus feed(std::span<Slot * const> slots, Phase phase, Companion & companion);

    // Draft n tokens in each slot (slot.draft, slot.draft_probability).
    [[nodiscard]] DecodeStatus draft_tokens(std::span<Slot * const> slots, int32_t n, bool catch_up_alone, Companion & companion);

    // A draft of n tokens of one slot, from what waits for it but with another pending row (n_embd), and taken back: both
    // contexts and the slot are as before. The slot has the token that the pending row goes with.
    struct Trial {
        std::vector<int32_t> tokens;
        std::vector<float>   logits;    // n_vocab, of the first step
    };
    [[nodiscard]] DecodeStatus try_draft(Slot & slot, std::span<const float> pending, int32_t n, Companion & companion, Trial & trial);

    // The row that the next draft starts from, n_embd floats; empty: it comes with the next decode. Borrowed.
    std::span<const float> pending_row(int32_t slot) const;
    std::span<const float> waiting_rows(int32_t slot) const { return at(slot).waiting; }    // all of them, borrowed

    // ---- what a restore is made to do wrong, to see it caught

    void set_pending_row(int32_t slot, std::span<const float> row);
    // Catch-up rows become those that the head made up while drafting: as if drafted positions had been left in the context.
    void catch_up_with_own_rows(int32_t slot);
    // The MTP context lacks all that the slot held. False: the companion could not drop it.
    [[nodiscard]] bool leave_behind(int32_t slot, Companion & companion);

    int32_t n_positions(int32_t slot) const { return at(slot).n_positions; }
    int32_t n_waiting(int32_t slot) const;    // rows, the pending one included

    // Positions whose hidden rows are known: those of the MTP context, and those that wait. The pending row is the last's.
    // Where the MTP context holds one position more than rows are known of, the pending row comes with the next decode.
    int32_t n_known(int32_t slot) const { return at(slot).n_positions + n_waiting(slot) - 1; }

    // Tokens from n on are others now: what belongs to them goes. False: the companion could not drop it; clear the slot.
    [[nodiscard]] bool truncate(int32_t slot, int32_t n, Companion & companion);

    // ---- the hidden rows of a slot, to be saved beside a state of the target and put back with it
    MtpState                state(int32_t slot) const { return {at(slot).n_positions, at(slot).n_missing, at(slot).waiting, n_heads}; }
    std::optional<MtpState> state_at(int32_t slot, int32_t n) const;    // as it was when n positions were known; none: that is gone
    void                    set_state(int32_t slot, MtpState state);    // the companion holds those positions
    // The companion is empty and lacks the first n positions; the pending row is zero.
    void begin_late(int32_t slot, int32_t n);
    void forget_rows(int32_t slot);    // those that wait: they are zero
    // Of n_positions. libllama moves the keys with the next decode of the target: an assistant would find them still turned
    // for their old places, so it sits out one round.
    void shift(int32_t slot, int32_t n_keep, int32_t n_discard);
    // Positions up to the newest in the memory.
    int32_t n_held(int32_t slot) const { return at(slot).n_positions > at(slot).n_missing ? at(slot).n_positions : 0; }
    bool is_assistant() const { return family == MtpFamily::Assistant; }
    // Whether a state has keys for every head that drafts here.
    bool has_all_heads(const MtpState & state) const { return state.n_heads >= n_heads; }

    struct Counts {
        int32_t draft = 0, catch_up = 0, prompt = 0;    // decode calls
        int64_t draft_graph_runs = 0, prompt_graph_runs = 0;
        int32_t probe = 0;
    };
    Counts counts;

private:
    struct Rows {
        int32_t            n_positions = 0;    // positions in the MTP context's memory
        std::vector<float> waiting;            // hidden rows for tokens[n_positions] and on
        int32_t            n_missing   = 0;    // the first of these positions, which it lacks
        std::vector<float> own;                // those that the head returned in the last draft, one a step
    };
    Rows &       at(int32_t slot) { return rows[static_cast<size_t>(slot)]; }
    const Rows & at(int32_t slot) const { return rows[static_cast<size_t>(slot)]; }

    // The first n. Returns the batch index of the last; -1 when there was none to add. is_output: the last row is one.
    int32_t add_waiting(const Slot & slot, int32_t n, bool is_output);
    // The rows of the slot's next draft step. Returns the index of the row that the step drafts from.
    int32_t add_step(const Slot & slot);
    // The steps of a draft: tokens and probabilities into the slots, the head's rows into Rows::own. first_logits: null, or
    // takes those of the first step of the first slot.
    DecodeStatus take_steps(std::span<Slot * const> slots, int32_t n, Phase phase, Companion & companion, std::vector<float> * first_logits);
    [[nodiscard]] bool choose_head(std::span<Slot * const> slots, int32_t head, Companion & companion);
    void forget_waiting(int32_t slot, int32_t n);
    DecodeStatus run(Phase phase, int32_t step);
    bool returns_rows_of_outputs();

    std::unique_ptr<Decoder> draft;
    MtpFamily                family;
    int32_t                  n_heads;    // with keys and values to fill: those driven; an assistant has none
    Recorder &               recorder;
    std::vector<Rows>        rows;
    int32_t                  n_vocab;
    bool                     sits_out = false;
};

}  // namespace draftscope
