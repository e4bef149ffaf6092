// Prompts that left their slots, in host memory, for when one like them comes again. A budget in bytes; who was not asked
// for the longest goes first.
#pragma once

#include "slot_image.h"

#include <cstdint>
#include <list>
#include <vector>

namespace draftscope {

class PromptCache {
public:
    // budget_bytes 0: nothing is kept.
    explicit PromptCache(int64_t budget_bytes_) : budget_bytes(budget_bytes_) {}

    using Images = std::list<SlotImage>;    // the one used last first

    bool fits(int64_t size_bytes) const { return size_bytes <= budget_bytes; }

    // Keep an image that fits; others go for it.
    void store(SlotImage image);

    const Images & all() const { return images; }
    SlotImage      take(Images::const_iterator image);
    int64_t        size_bytes() const;

private:
    Images  images;
    int64_t budget_bytes;
};

}  // namespace draftscope
