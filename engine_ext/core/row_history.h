// Which position's hidden row a row is: digests of the target's rows by slot and position, and of what the MTP context was
// given. Filled where libllama is called, from what a batch says of itself, so that it does not repeat a mistake of whoever
// carries rows about.
#pragma once

#include "probe_records.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace draftscope {

// 64 bits of a row; 0 stands for a row of zeros, and for no other.
uint64_t digest_of(std::span<const float> row);

class RowHistory {
public:
    explicit RowHistory(int32_t n_slots) : slots(static_cast<size_t>(n_slots)) {}

    // The target has made this row of a token at a position.
    void note(int32_t slot, int32_t position, int32_t token, std::span<const float> row);

    // The position whose row that is, `expected` before all others, where it must be the row of the token that the slot has
    // there, and not of a rejected one; unknown_position, or zero_row.
    int32_t find(int32_t slot, uint64_t digest, int32_t expected, std::span<const int32_t> tokens) const;

    // Whether any row of that position is known.
    bool knows(int32_t slot, int32_t position) const;

    // Rows that are right although nobody saw them made: they were saved with a state, or waited when watching began. They
    // have no position, and what is made from them is not wrong.
    void trust(int32_t slot, std::span<const float> rows, int32_t width);
    bool is_trusted(int32_t slot, uint64_t digest) const;

    // The newest row of each of the last `n` positions up to the last of the slot: pairs of position and digest.
    std::vector<int64_t> recent(int32_t slot, int32_t last, int32_t n) const;

    // ---- what the MTP context holds

    void note_companion(int32_t slot, int32_t position, int32_t token, std::span<const float> row);
    void drop_companion(int32_t slot, int32_t position);    // from there on
    void forget(int32_t slot);    // both were put back whole, or nobody watched: nothing is known of what is there now
    void shift(int32_t slot, int32_t n_keep, int32_t n_discard);    // of both

    struct Wrong {
        int32_t n = 0, first = -1;
    };
    // Positions below n that were made from another token than the slot has there, or from another row than the target's
    // of the position before. Those of which nothing is known are not among them. is_all: also those that were right
    // before and were not touched since.
    Wrong find_wrong(int32_t slot, std::span<const int32_t> tokens, int32_t n, bool is_all);

private:
    static constexpr size_t n_trusted = 256;    // more than ever wait in a slot
    static constexpr size_t n_kept = 3;    // rows of a position: decoded again in another batch it may differ in its last bits
    struct Made {
        uint64_t digest = 0;
        int32_t  token  = -1;    // -1: none
    };
    struct OfSlot {
        std::vector<std::array<Made, n_kept>> rows;       // by position, the newest first
        std::vector<Made>                     companion;    // by position
        std::vector<uint64_t>                 trusted;      // digests
        int32_t                               n_checked = 0;
        Wrong                                 wrong;    // among those
    };
    static bool is_right(const OfSlot & of, std::span<const int32_t> tokens, size_t position);
    OfSlot &       at(int32_t slot) { return slots[static_cast<size_t>(slot)]; }
    const OfSlot & at(int32_t slot) const { return slots[static_cast<size_t>(slot)]; }

    std::vector<OfSlot> slots;
};

}  // namespace draftscope
