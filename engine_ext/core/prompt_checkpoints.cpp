#include "prompt_checkpoints.h"

#include <algorithm>
#include <limits>

namespace draftscope {

int32_t PromptCheckpoints::last(int32_t slot, int32_t n_decoded) const {
    const PromptCheckpoint * found = newest(slot, n_decoded);
    const int32_t            before = tried_at[static_cast<size_t>(slot)];
    return std::max(found == nullptr ? 0 : found->position, before <= n_decoded ? before : 0);
}

std::vector<PromptCheckpoints::Gone> PromptCheckpoints::add(int32_t slot, PromptCheckpoint checkpoint) {
    std::vector<PromptCheckpoint> & list     = at(slot);
    const int32_t                   position = checkpoint.position;
    std::erase_if(list, [position](const PromptCheckpoint & other) { return other.position == position; });
    const auto behind = std::find_if(list.begin(), list.end(), [position](const PromptCheckpoint & other) { return other.position > position; });
    list.insert(behind, std::move(checkpoint));
    return shrink(slot, position);
}

void PromptCheckpoints::put(int32_t slot, std::vector<PromptCheckpoint> checkpoints) {
    at(slot) = std::move(checkpoints);
    shrink(slot, -1);
}

const PromptCheckpoint * PromptCheckpoints::newest(int32_t slot, int32_t limit) const {
    const PromptCheckpoint * found = nullptr;
    for (const PromptCheckpoint & checkpoint : of(slot)) {
        found = checkpoint.position <= limit ? &checkpoint : found;
    }
    return found;
}

void PromptCheckpoints::forget(int32_t slot) {
    at(slot) = {};
    tried(slot, 0);
}

void PromptCheckpoints::drop_behind(int32_t slot, int32_t n) {
    if (tried_at[static_cast<size_t>(slot)] > n) {
        tried(slot, 0);
    }
    std::erase_if(at(slot), [n](const PromptCheckpoint & checkpoint) { return checkpoint.position > n; });
}

int64_t PromptCheckpoints::size_bytes(int32_t slot) const {
    int64_t sum = 0;
    for (const PromptCheckpoint & checkpoint : of(slot)) {
        sum += checkpoint.size_bytes();
    }
    return sum;
}

int64_t PromptCheckpoints::size_bytes() const {
    int64_t sum = 0;
    for (size_t slot = 0; slot < slots.size(); slot++) {
        sum += size_bytes(static_cast<int32_t>(slot));
    }
    return sum;
}

std::vector<PromptCheckpoints::Gone> PromptCheckpoints::shrink(int32_t but_slot, int32_t but_position) {
    std::vector<Gone> gone;
    while (size_bytes() > budget_bytes) {
        const auto [slot, index] = least_missed(but_slot, but_position);
        std::vector<PromptCheckpoint> & list = at(slot);
        gone.push_back({slot, list[index].position, list[index].size_bytes()});
        list.erase(list.begin() + static_cast<ptrdiff_t>(index));
    }
    return gone;
}

// The one whose loss makes the smallest gap. A slot's newest is missed most, and the one that has just come more than any:
// it goes when nothing else is left.
std::pair<int32_t, size_t> PromptCheckpoints::least_missed(int32_t but_slot, int32_t but_position) const {
    std::pair<int32_t, size_t> found{but_slot, 0};
    int64_t                    least = std::numeric_limits<int64_t>::max();
    for (size_t slot = 0; slot < slots.size(); slot++) {
        const std::vector<PromptCheckpoint> & list = slots[slot];
        for (size_t i = 0; i < list.size(); i++) {
            if (static_cast<int32_t>(slot) == but_slot && list[i].position == but_position) {
                continue;
            }
            const int64_t before = i == 0 ? 0 : list[i - 1].position;
            const bool    newest = i + 1 == list.size();
            const int64_t gap    = newest ? (int64_t{1} << 40) + list[i].position : list[i + 1].position - before;
            if (gap < least) {
                least = gap;
                found = {static_cast<int32_t>(slot), i};
            }
        }
    }
    return found;
}

}  // namespace draftscope
