// All that a slot is between two tasks, in host memory: its tokens, the states of both contexts, the hidden rows. What the
// prompt cache keeps, a fork copies and a slot file holds.
#pragma once

#include "prompt_checkpoints.h"

#include <cstdint>
#include <vector>

namespace draftscope {

struct SlotImage {
    std::vector<int32_t> tokens;
    int32_t              n_decoded = 0;    // positions in the target's memory
    std::vector<uint8_t> target;           // libllama's whole state of the sequence
    std::vector<uint8_t> draft;            // the same of the MTP context
    bool                 has_rows = false;    // whether draft and rows are there
    MtpState             rows;
    std::vector<PromptCheckpoint> checkpoints;    // in the order of positions; the bytes of an image hold the newest few

    // Those of the slot that go with the image: whose rows are known from the same position on as the slot's are now.
    void take_checkpoints(const std::vector<PromptCheckpoint> & of_slot);

    int64_t size_bytes() const;
};

// width: of a hidden row. Layout: see slot_image.cpp; it ends with a hash over all before it.
std::vector<uint8_t> encode(const SlotImage & image, int32_t width);

// Throws EngineError(bad_state): wrong magic, version, sizes or hash, a token outside the vocabulary of n_vocab tokens,
// more tokens than n_ctx, rows of other positions, and what decode_mtp_state refuses.
SlotImage decode_slot_image(const std::vector<uint8_t> & bytes, int32_t width, int32_t n_vocab, int32_t n_ctx);

}  // namespace draftscope
