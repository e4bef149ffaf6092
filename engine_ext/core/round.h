// One round for all generating slots together: replay where it does not ride, draft, checkpoint, verify, accept, go back.
#pragma once

#include "scheduler.h"

#include <span>
#include <vector>

namespace draftscope {

class Round {
public:
    Round(Contexts & contexts_, TargetCounts & counts_) : contexts(contexts_), counts(counts_) {}

    // Slots are in state Generating. Those that end, fail or are cancelled leave that state.
    void run(std::span<Slot * const> slots);

    // Number the rounds from 0 again: a run begins.
    void start_numbering() { n_earlier = counts.rounds; }

    // Asked between the stages; true: the slot's task is to be cancelled.
    std::function<bool(int32_t)> is_cancelled;

private:
    struct Entry {
        Slot *  slot;
        int32_t first;        // batch index of the sampled token's row
        int32_t n_replay;     // tokens in front of it
        int32_t n_draft;      // tokens behind it
        int32_t n_accepted;
    };

    void make_room();
    void replay_alone();
    std::vector<Slot *> choose_behind() const;
    int32_t add_pending(const Slot & slot);
    bool take_sampled(Slot & slot, int32_t token, int32_t index);
    void draft();
    void cut_drafts();
    void checkpoint();
    std::vector<std::span<Slot * const>> parts();
    bool verify(std::span<Slot * const> part);
    void accept(Entry & entry);
    void go_back(Entry & entry, int32_t n_before);
    void check(Slot & slot);
    void begin_anew(Slot & slot, FallbackReason reason);    // its memory is lost
    void drop_cancelled();    // and those that have ended otherwise

    Contexts &          contexts;
    TargetCounts &      counts;
    std::vector<Slot *> slots;
    std::vector<Entry>  entries;
    int64_t             t_start_ns = 0;
    int32_t             n_earlier  = 0;    // rounds of earlier runs
    int32_t             n_yielded  = 0;    // tokens of this round, of all slots
};

}  // namespace draftscope
