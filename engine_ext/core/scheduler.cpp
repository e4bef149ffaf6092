#include "scheduler.h"

#include "probability.h"
#include "probe.h"
#include "slot_memory.h"

#include <algorithm>

namespace draftscope {

DecodeStatus decode_target(Contexts & contexts, TargetCounts & counts, Phase phase) {
    Decoder & target = contexts.target;
    contexts.recorder.operation(phase);
    const int64_t      t_start = now_ns(), runs = target.n_graph_runs();
    const DecodeStatus status   = target.decode();
    const int64_t      new_runs = target.n_graph_runs() - runs;
    const int64_t      duration = now_ns() - t_start;
    contexts.recorder.span(phase, engine_track, t_start, 0, target.size(), static_cast<int>(new_runs));
    if (status == DecodeStatus::Done) {
        contexts.probe->note_decode();
    }
    if (phase == Phase::Prompt) {
        counts.prompt++;
        counts.prompt_graph_runs += new_runs;
    } else {
        counts.target++;
        counts.replay += phase == Phase::Replay ? 1 : 0;
        counts.target_graph_runs += new_runs;
        contexts.costs.learn_decode(new_runs, target.size(), duration);
    }
    return status;
}

std::vector<Scheduler::Share> Scheduler::fill_batch(std::span<Slot * const> slots) {
    std::vector<Share> shares;
    int32_t            room = contexts.target.capacity();
    contexts.target.clear();
    contexts.is_in_order = false;    // a new sequence takes any free place, and libllama moves others for it
    // With one buffer for the keys of all slots, a batch of several prompts is so long that attention takes a kernel that
    // rounds otherwise than for each prompt alone, and near-ties would be decided by who else is there.
    const size_t n_slots = contexts.is_unified ? std::min<size_t>(1, slots.size()) : slots.size();
    for (size_t i = 0; i < n_slots && room > 0; i++) {
        Slot &        slot = *slots[i];
        const auto    left = static_cast<int32_t>(n_slots - i);
        const int32_t due  = slot.n_to_prefill() - slot.n_decoded;
        // What earlier slots did not use is shared on. A chunk ends where the slot is to be saved.
        const int32_t n = std::min({due, std::max(1, room / left), std::max(1, contexts.memory->until_due(slot))});
        Share         share{&slot, n, contexts.target.size()};
        for (int32_t j = 0; j < n; j++) {
            const bool last = j + 1 == due;
            contexts.target.add(slot.id, slot.tokens[static_cast<size_t>(slot.n_decoded + j)], slot.n_decoded + j, last);
        }
        room -= n;
        shares.push_back(share);
    }
    return shares;
}

void Scheduler::finish_chunk(const Share & share, int64_t t_start_ns) {
    Slot & slot = *share.slot;
    contexts.recorder.span(Phase::Prompt, slot.id, t_start_ns, slot.n_decoded, share.n, 0);
    if (contexts.driver != nullptr) {
        const int32_t n_there = std::min(share.n, contexts.driver->n_known(slot.id) - slot.n_decoded);    // kept of an earlier task
        contexts.driver->take_rows(slot.id, contexts.target, share.first + n_there, share.n - n_there);
    }
    slot.n_decoded += share.n;
}

void Scheduler::begin(Slot & slot, int32_t index) {
    const bool is_first_token_due = slot.is_first_token_due();
    slot.begin_generating();
    if (is_first_token_due) {
        const bool    is_kept = index < 0;
        const int32_t token   = is_kept ? slot.sample_first() : slot.sample(contexts.target.context(), index);
        if (token == no_token) {
            contexts.memory->release(slot);
            return;
        }
        const float p = probability_of(is_kept ? slot.first_logits.data() : contexts.target.logits(index), contexts.model.n_vocab(), token);
        contexts.recorder.token(slot.id, Origin::Sampled, slot.n_tokens(), token, 0, -1, static_cast<double>(p));
        if (slot.emit(contexts.model, token, contexts.ends_at)) {
            contexts.memory->release(slot);
        }
    }
}

void Scheduler::prefill(std::span<Slot * const> all) {
    std::vector<Slot *> slots;
    for (Slot * slot : all) {
        if (slot->n_decoded == slot->n_to_prefill()) {
            begin(*slot, -1);
        } else {
            slots.push_back(slot);
        }
    }
    if (!slots.empty()) {
        prefill_chunk(slots);
    }
}

void Scheduler::prefill_chunk(std::span<Slot * const> slots) {
    contexts.probe->try_drafts(slots);
    const std::vector<Share> shares  = fill_batch(slots);
    const int64_t            t_start = now_ns();
    const DecodeStatus       status  = decode_target(contexts, counts, Phase::Prompt);
    std::vector<Slot *>      fed;
    for (const Share & share : shares) {
        fed.push_back(share.slot);
    }
    if (status != DecodeStatus::Done) {
        contexts.memory->end_all(fed, status, SlotMemory::Decode::Target, "the prompt");
        return;
    }
    for (const Share & share : shares) {
        finish_chunk(share, t_start);
    }
    // Sample before the companion is fed: the first token is there sooner.
    for (const Share & share : shares) {
        if (share.slot->n_decoded == share.slot->n_to_prefill()) {
            begin(*share.slot, share.first + share.n - 1);
        }
    }
    if (contexts.driver != nullptr) {
        if (const DecodeStatus fed_status = contexts.driver->feed(fed, Phase::Prompt, contexts.companion); fed_status != DecodeStatus::Done) {
            contexts.memory->end_all(fed, fed_status, SlotMemory::Decode::Draft, "the prompt in the MTP context");
            return;
        }
    }
    for (const Share & share : shares) {
        if (share.slot->state() != SlotState::Prompt) {
            contexts.memory->save_prompt(*share.slot, contexts.target.logits(share.first + share.n - 1));
        }
        contexts.memory->save_if_due(*share.slot);
    }
}

}  // namespace draftscope
