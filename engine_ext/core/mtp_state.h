// The hidden rows of a slot as bytes: what a state of the target needs beside it for drafting to go on as if nothing had
// happened. Everything is checked before anything is taken over.
//
// Layout, little endian: u32 magic, u32 version, u32 row width, u32 row count, i32 positions in the MTP context, i32 those
// in front that it lacks, i32 heads, u32 0, and the rows as float32: those of accepted tokens that the MTP context has yet
// to decode, then the pending row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace draftscope {

struct MtpState {
    int32_t            n_positions = 0;    // positions in the MTP context's memory
    int32_t            n_missing   = 0;    // of these, the first ones that it never got: rows were not saved with a state
    std::vector<float> rows;               // (R, E): row i belongs to position n_positions - 1 + i; the last one is the pending row
    int32_t            n_heads = 1;        // chained heads whose keys hold those positions; of an assistant 0

    // Positions whose rows are known: those of the memory, and those that wait; the pending row is the last's.
    int32_t n_known(int32_t width) const { return n_positions + static_cast<int32_t>(rows.size() / static_cast<size_t>(width)) - 1; }

    // The pending row, borrowed; empty: it comes with the next decode.
    std::span<const float> pending_row(int32_t width) const { return std::span(rows).last(std::min(rows.size(), static_cast<size_t>(width))); }

    // Positions up to the newest that the memory holds; none where all are missing.
    int32_t n_held() const { return n_positions > n_missing ? n_positions : 0; }
};

std::vector<uint8_t> encode(const MtpState & state, int32_t width);

// Throws EngineError(bad_state): wrong magic, version, width, count or size, a position out of range, a number that is
// none. most_rows: that a slot could have.
MtpState decode_mtp_state(const std::vector<uint8_t> & bytes, int32_t width, int32_t most_rows);

}  // namespace draftscope
