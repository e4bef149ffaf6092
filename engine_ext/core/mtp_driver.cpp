#include "mtp_driver.h"

#include "probability.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace draftscope {

MtpDriver::MtpDriver(std::unique_ptr<Decoder> draft_, const Speculation & plan, Recorder & recorder_, int32_t n_slots, int32_t n_vocab_)
    : draft(std::move(draft_)), family(plan.family), n_heads(family == MtpFamily::Assistant ? 0 : family == MtpFamily::ChainedHeads ? plan.n_draft_max : 1),
      recorder(recorder_), rows(static_cast<size_t>(n_slots)), n_vocab(n_vocab_) {
    llama_set_embeddings_nextn(draft->context(), true, /*masked =*/true);
    // An assistant is asked for outputs alone, and could not be asked now: the target has no keys yet that it might read.
    if (family != MtpFamily::Assistant && !returns_rows_of_outputs()) {
        llama_set_embeddings_nextn(draft->context(), true, /*masked =*/false);
    }
    for (int32_t slot = 0; slot < n_slots; slot++) {
        begin(slot);
    }
}

// In masked mode libllama returns the first n_outputs rows of the graph's hidden tensor. Where an architecture takes that
// tensor before it selects output rows, a batch of a non-output and an output row returns the row of the wrong token; all
// rows are there then, and unmasked mode is right. Where it takes it after, only masked mode is. So: ask with two rows.
bool MtpDriver::returns_rows_of_outputs() {
    std::vector<float> input(static_cast<size_t>(draft->n_embd()));
    for (size_t i = 0; i < input.size(); i++) {
        input[i] = std::sin(0.7f * static_cast<float>(i));
    }
    const auto second_row = [&](bool first_is_output) {
        draft->clear();
        draft->add(0, 0, 0, first_is_output, input.data());
        draft->add(0, std::min(1, n_vocab - 1), 1, true, input.data());
        const bool    ok  = draft->decode() == DecodeStatus::Done;
        const float * row = ok ? draft->hidden_row(1) : nullptr;
        std::vector<float> copy(row, row == nullptr ? row : row + draft->n_embd());
        llama_memory_clear(draft->memory(), true);
        return copy;
    };
    const std::vector<float> both = second_row(true), one = second_row(false);
    float difference = 0, scale = 0;
    for (size_t i = 0; i < both.size() && i < one.size(); i++) {
        difference = std::max(difference, std::abs(both[i] - one[i]));
        scale      = std::max(scale, std::abs(both[i]));
    }
    // Another kernel may serve one row than two: equal up to rounding is equal; another token's row is far away.
    return difference <= 0.02f * scale;
}

int32_t MtpDriver::n_waiting(int32_t slot) const {
    return static_cast<int32_t>(at(slot).waiting.size()) / draft->n_embd();
}

void MtpDriver::begin(int32_t slot) {
    begin_late(slot, 0);
}

void MtpDriver::begin_late(int32_t slot, int32_t n) {
    at(slot).n_positions = at(slot).n_missing = n;
    at(slot).waiting.assign(static_cast<size_t>(draft->n_embd()), 0.0f);
}

void MtpDriver::forget_rows(int32_t slot) {
    std::fill(at(slot).waiting.begin(), at(slot).waiting.end(), 0.0f);
}

void MtpDriver::shift(int32_t slot, int32_t n_keep, int32_t n_discard) {
    Rows & of_slot = at(slot);
    sits_out = family == MtpFamily::Assistant;
    of_slot.n_positions -= n_discard;
    if (of_slot.n_missing > n_keep) {
        of_slot.n_missing = std::max(of_slot.n_missing - n_discard, n_keep);
    }
}

bool MtpDriver::truncate(int32_t slot, int32_t n, Companion & companion) {
    Rows & of_slot = at(slot);
    if (n == 0) {
        begin(slot);
        return companion.drop_drafted(slot, 0);
    }
    if (of_slot.n_positions > n) {
        const bool dropped  = companion.drop_drafted(slot, n);
        const bool is_empty = n_heads > 0 && llama_memory_seq_pos_max(draft->memory(), slot) < 0;    // also where a saved window did not reach back so far
        of_slot.n_positions = n;
        of_slot.n_missing   = is_empty ? n : std::min(of_slot.n_missing, n);
        of_slot.waiting.clear();
        return dropped;
    }
    of_slot.waiting.resize(std::min(of_slot.waiting.size(), static_cast<size_t>(draft->n_embd()) * static_cast<size_t>(n + 1 - of_slot.n_positions)));
    return true;
}

std::optional<MtpState> MtpDriver::state_at(int32_t slot, int32_t n) const {
    const Rows & of_slot = at(slot);
    if (of_slot.n_positions > n || n_known(slot) < n) {
        return std::nullopt;
    }
    const ptrdiff_t n_floats = static_cast<ptrdiff_t>(draft->n_embd()) * (n + 1 - of_slot.n_positions);
    return MtpState{of_slot.n_positions, of_slot.n_missing, {of_slot.waiting.begin(), of_slot.waiting.begin() + n_floats}, n_heads};
}

void MtpDriver::set_state(int32_t slot, MtpState state) {
    at(slot).n_positions = state.n_positions;
    at(slot).n_missing   = state.n_missing;
    at(slot).waiting     = std::move(state.rows);
}

void MtpDriver::take_rows(int32_t slot, const Decoder & target, int32_t first, int32_t count) {
    std::vector<float> & waiting = at(slot).waiting;
    for (int32_t i = 0; i < count; i++) {
        const float * row = target.hidden_row(first + i);
        waiting.insert(waiting.end(), row, row + draft->n_embd());
    }
}

int32_t MtpDriver::add_waiting(const Slot & slot, int32_t n, bool is_output) {
    int32_t last = -1;
    for (int32_t i = 0; i < n; i++) {
        const int32_t position = at(slot.id).n_positions + i;
        const bool    output   = is_output && i + 1 == n;
        last = draft->add(slot.id, slot.tokens[static_cast<size_t>(position)], position, output,
                          at(slot.id).waiting.data() + static_cast<ptrdiff_t>(i) * draft->n_embd());
    }
    return last;
}

void MtpDriver::forget_waiting(int32_t slot, int32_t n) {
    std::vector<float> & waiting = at(slot).waiting;
    waiting.erase(waiting.begin(), waiting.begin() + static_cast<ptrdiff_t>(n) * draft->n_embd());
    at(slot).n_positions += n;
}

DecodeStatus MtpDriver::run(Phase phase, int32_t step) {
    recorder.operation(phase);
    const int64_t t_start = now_ns(), runs = draft->n_graph_runs();
    const DecodeStatus status = draft->decode();
    const int64_t new_runs = draft->n_graph_runs() - runs;
    recorder.span(phase, engine_track, t_start, step, draft->size(), static_cast<int>(new_runs));
    if (phase == Phase::Probe) {
        counts.probe++;
        return status;
    }
    if (phase == Phase::Prompt) {
        counts.prompt++;
        counts.prompt_graph_runs += new_runs;
    } else {
        (phase == Phase::CatchUp ? counts.catch_up : counts.draft)++;
        counts.draft_graph_runs += new_runs;
    }
    return status;
}

// The keys of all heads share places, whose tokens one removal forgets for all of them. What the head before has decoded
// is still in its layer, and true, once the same rows are in the same places again.
bool MtpDriver::choose_head(std::span<Slot * const> slots, int32_t head, Companion & companion) {
    if (family != MtpFamily::ChainedHeads) {
        return true;
    }
    if (n_heads > 1) {
        llama_set_nextn_layer_offset(draft->context(), head);
    }
    bool dropped = true;
    for (const Slot * slot : slots) {
        dropped = (head == 0 || companion.drop_drafted(slot->id, at(slot->id).n_positions)) && dropped;
    }
    return dropped;
}

DecodeStatus MtpDriver::feed(std::span<Slot * const> slots, Phase phase, Companion & companion) {
    bool has_more = true;
    while (has_more) {
        std::vector<int32_t> n_fed;
        int32_t              room = n_heads > 0 ? draft->capacity() : std::numeric_limits<int32_t>::max();    // an assistant is fed nothing
        draft->clear();
        has_more = false;
        for (const Slot * slot : slots) {
            const int32_t n_due = std::max(0, n_waiting(slot->id) - 1);
            n_fed.push_back(std::min(n_due, room));
            room -= n_fed.back();
            has_more = has_more || n_fed.back() < n_due;
            if (n_heads > 0) {
                add_waiting(*slot, n_fed.back(), /*is_output =*/false);
            }
        }
        for (int32_t head = 0; head < n_heads && draft->size() > 0; head++) {
            if (!choose_head(slots, head, companion)) {
                return DecodeStatus::Failed;
            }
            if (const DecodeStatus status = run(phase, head); status != DecodeStatus::Done) {
                return status;
            }
        }
        for (size_t s = 0; s < slots.size(); s++) {
            forget_waiting(slots[s]->id, n_fed[s]);
        }
    }
    return DecodeStatus::Done;
}

int32_t MtpDriver::add_step(const Slot & slot) {
    const std::vector<float> & own       = at(slot.id).own;
    const size_t               n_drafted = slot.draft.size();
    const bool                 is_chain  = family == MtpFamily::ChainedHeads;
    const int32_t              next      = at(slot.id).n_positions + n_waiting(slot.id);    // the position behind the pending row's token
    int32_t                    last      = -1;
    if (n_drafted == 0 || is_chain) {
        last = add_waiting(slot, n_waiting(slot.id), /*is_output =*/n_drafted == 0);
    }
    for (size_t i = is_chain || n_drafted == 0 ? 0 : n_drafted - 1; i < n_drafted; i++) {
        const int32_t position = family == MtpFamily::Assistant ? next - 1 : next + static_cast<int32_t>(i);
        last = draft->add(slot.id, slot.draft[i], position, i + 1 == n_drafted, own.data() + static_cast<ptrdiff_t>(i) * draft->n_embd());
    }
    return last;
}

DecodeStatus MtpDriver::take_steps(std::span<Slot * const> slots, int32_t n, Phase phase, Companion & companion, std::vector<float> * first_logits) {
    for (Slot * slot : slots) {
        slot->draft.clear();
        slot->draft_probability.clear();
        at(slot->id).own.clear();
    }
    for (int32_t step = 0; step < n; step++) {
        if (!choose_head(slots, step, companion)) {
            return DecodeStatus::Failed;
        }
        std::vector<int32_t> last;
        draft->clear();
        for (const Slot * slot : slots) {
            last.push_back(add_step(*slot));
        }
        if (const DecodeStatus status = run(phase, step); status != DecodeStatus::Done) {
            return status;
        }
        for (size_t s = 0; s < slots.size(); s++) {
            const float *   logits = draft->logits(last[s]);
            const Candidate best   = most_probable(logits, n_vocab);
            slots[s]->draft.push_back(best.token);
            slots[s]->draft_probability.push_back(best.probability);
            const float * row = draft->hidden_row(last[s]);
            at(slots[s]->id).own.insert(at(slots[s]->id).own.end(), row, row + draft->n_embd());
            if (first_logits != nullptr && step == 0 && s == 0) {
                first_logits->assign(logits, logits + n_vocab);
            }
        }
    }
    return DecodeStatus::Done;
}

DecodeStatus MtpDriver::draft_tokens(std::span<Slot * const> slots, int32_t n, bool catch_up_alone, Companion & companion) {
    if (catch_up_alone || family == MtpFamily::Assistant) {
        if (const DecodeStatus status = feed(slots, Phase::CatchUp, companion); status != DecodeStatus::Done) {
            return status;
        }
    }
    if (const DecodeStatus status = take_steps(slots, std::exchange(sits_out, false) ? 0 : n, Phase::Draft, companion, nullptr);
        status != DecodeStatus::Done || slots.empty() || slots.front()->draft.empty()) {
        return status;
    }
    // Rows with the target's hidden rows stay; those that were fed with the head's own go.
    bool dropped = true;
    for (Slot * slot : slots) {
        forget_waiting(slot->id, n_waiting(slot->id));
        dropped = companion.drop_drafted(slot->id, at(slot->id).n_positions) && dropped;
    }
    return dropped ? DecodeStatus::Done : DecodeStatus::Failed;
}

DecodeStatus MtpDriver::try_draft(Slot & slot, std::span<const float> pending, int32_t n, Companion & companion, Trial & trial) {
    if (n_waiting(slot.id) == 0 || n_waiting(slot.id) + n > draft->capacity()) {
        return DecodeStatus::Failed;
    }
    const std::vector<float> own = at(slot.id).own, row(pending_row(slot.id).begin(), pending_row(slot.id).end());
    Slot * const             alone[] = {&slot};
    if (family == MtpFamily::Assistant) {    // it takes the pending row alone, as in any draft
        forget_waiting(slot.id, n_waiting(slot.id) - 1);
    }
    set_pending_row(slot.id, pending);
    const DecodeStatus status  = take_steps(alone, n, Phase::Probe, companion, &trial.logits);
    set_pending_row(slot.id, row);
    at(slot.id).own = own;
    trial.tokens    = std::exchange(slot.draft, {});
    slot.draft_probability.clear();
    return companion.drop_drafted(slot.id, at(slot.id).n_positions) ? status : DecodeStatus::Failed;
}

std::span<const float> MtpDriver::pending_row(int32_t slot) const {
    const std::vector<float> & waiting = at(slot).waiting;
    return std::span(waiting).last(std::min(waiting.size(), static_cast<size_t>(draft->n_embd())));
}

void MtpDriver::set_pending_row(int32_t slot, std::span<const float> row) {
    std::copy(row.begin(), row.end(), at(slot).waiting.end() - static_cast<ptrdiff_t>(row.size()));
}

void MtpDriver::catch_up_with_own_rows(int32_t slot) {
    Rows &       of_slot = at(slot);
    const size_t n       = std::min(of_slot.own.size(), static_cast<size_t>(std::max(0, n_waiting(slot) - 1)) * static_cast<size_t>(draft->n_embd()));
    std::copy_n(of_slot.own.begin(), n, of_slot.waiting.begin());
}

bool MtpDriver::leave_behind(int32_t slot, Companion & companion) {
    const std::vector<float> row(pending_row(slot).begin(), pending_row(slot).end());
    const int32_t            n_lost = n_known(slot);
    if (n_heads == 0 || row.empty() || !companion.drop_drafted(slot, 0)) {
        return n_heads == 0 || row.empty();
    }
    begin_late(slot, n_lost);
    set_pending_row(slot, row);
    return true;
}

}  // namespace draftscope
