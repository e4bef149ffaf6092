#include "prompt_cache.h"

#include <algorithm>
#include <utility>

namespace draftscope {

void PromptCache::store(SlotImage image) {
    // The same prompt again, or a longer form of one that is there, takes its place.
    std::erase_if(images, [&image](const SlotImage & other) {
        return other.tokens.size() <= image.tokens.size() && std::equal(other.tokens.begin(), other.tokens.end(), image.tokens.begin());
    });
    images.push_front(std::move(image));
    while (size_bytes() > budget_bytes) {
        images.pop_back();
    }
}

SlotImage PromptCache::take(Images::const_iterator image) {
    const auto found = images.erase(image, image);    // of a constant iterator, one that may be moved from
    SlotImage  taken = std::move(*found);
    images.erase(found);
    return taken;
}

int64_t PromptCache::size_bytes() const {
    int64_t sum = 0;
    for (const SlotImage & image : images) {
        sum += image.size_bytes();
    }
    return sum;
}

}  // namespace draftscope
