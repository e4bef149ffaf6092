#include "row_history.h"

#include <algorithm>
#include <cstring>

namespace draftscope {

namespace {

uint64_t mixed(uint64_t value) {
    value ^= value >> 29;
    value *= 0x9E3779B97F4A7C15u;
    return value ^ (value >> 32);
}

}  // namespace

// Four lanes, so that multiplications overlap: 4 bytes a float are read at memory speed.
uint64_t digest_of(std::span<const float> row) {
    uint64_t     lanes[4] = {1, 2, 3, 4}, any = 0;
    const size_t n_words  = row.size() / 2;
    for (size_t i = 0; i < n_words; i++) {
        uint64_t word;
        std::memcpy(&word, row.data() + 2 * i, sizeof word);
        any |= word;
        lanes[i % 4] = (lanes[i % 4] ^ word) * 0xD6E8FEB86659FD93u;
        lanes[i % 4] ^= lanes[i % 4] >> 31;
    }
    if (row.size() % 2 != 0) {
        uint32_t last;
        std::memcpy(&last, &row.back(), sizeof last);
        any |= last;
        lanes[0] = mixed(lanes[0] ^ last);
    }
    if (any == 0) {
        return 0;
    }
    const uint64_t digest = mixed(lanes[0]) ^ mixed(lanes[1] + 11) ^ mixed(lanes[2] + 23) ^ mixed(lanes[3] + 47);
    return digest == 0 ? 1 : digest;
}

void RowHistory::note(int32_t slot, int32_t position, int32_t token, std::span<const float> row) {
    auto & rows = at(slot).rows;
    if (static_cast<size_t>(position) >= rows.size()) {
        rows.resize(static_cast<size_t>(position) + 1);
    }
    std::array<Made, n_kept> & made = rows[static_cast<size_t>(position)];
    const Made                 fresh{digest_of(row), token};
    const auto same = std::find_if(made.begin(), made.end(), [&](const Made & one) { return one.digest == fresh.digest && one.token == token; });
    std::rotate(made.begin(), same == made.end() ? made.end() - 1 : same, same == made.end() ? made.end() : same + 1);
    made.front() = fresh;
}

int32_t RowHistory::find(int32_t slot, uint64_t digest, int32_t expected, std::span<const int32_t> tokens) const {
    if (digest == 0) {
        return zero_row;
    }
    const auto & rows = at(slot).rows;
    const auto   has  = [&](size_t position) {
        const bool is_expected = static_cast<int32_t>(position) == expected && position < tokens.size();
        return std::any_of(rows[position].begin(), rows[position].end(), [&](const Made & made) {
            return made.token >= 0 && made.digest == digest && (!is_expected || made.token == tokens[position]);
        });
    };
    if (expected >= 0 && static_cast<size_t>(expected) < rows.size() && has(static_cast<size_t>(expected))) {
        return expected;
    }
    for (size_t position = rows.size(); position-- > 0;) {
        if (has(position)) {
            return static_cast<int32_t>(position);
        }
    }
    return unknown_position;
}

bool RowHistory::knows(int32_t slot, int32_t position) const {
    const auto & rows = at(slot).rows;
    return position >= 0 && static_cast<size_t>(position) < rows.size() && rows[static_cast<size_t>(position)].front().token >= 0;
}

void RowHistory::trust(int32_t slot, std::span<const float> rows, int32_t width) {
    std::vector<uint64_t> & trusted = at(slot).trusted;
    for (size_t first = 0; first + static_cast<size_t>(width) <= rows.size(); first += static_cast<size_t>(width)) {
        if (const uint64_t digest = digest_of(rows.subspan(first, static_cast<size_t>(width))); !is_trusted(slot, digest)) {
            trusted.push_back(digest);
        }
    }
    trusted.erase(trusted.begin(), trusted.end() - static_cast<ptrdiff_t>(std::min(n_trusted, trusted.size())));
}

bool RowHistory::is_trusted(int32_t slot, uint64_t digest) const {
    const std::vector<uint64_t> & trusted = at(slot).trusted;
    return std::find(trusted.begin(), trusted.end(), digest) != trusted.end();
}

std::vector<int64_t> RowHistory::recent(int32_t slot, int32_t last, int32_t n) const {
    std::vector<int64_t> found;
    const auto &         rows = at(slot).rows;
    for (int32_t position = std::max(0, last - n + 1); position <= last && static_cast<size_t>(position) < rows.size(); position++) {
        if (const Made & newest = rows[static_cast<size_t>(position)].front(); newest.token >= 0) {
            found.push_back(position);
            found.push_back(static_cast<int64_t>(newest.digest));
        }
    }
    return found;
}

void RowHistory::note_companion(int32_t slot, int32_t position, int32_t token, std::span<const float> row) {
    OfSlot & of = at(slot);
    if (static_cast<size_t>(position) >= of.companion.size()) {
        of.companion.resize(static_cast<size_t>(position) + 1);
    }
    of.companion[static_cast<size_t>(position)] = {digest_of(row), token};
    if (position < of.n_checked) {
        of.n_checked = of.wrong.n > 0 ? 0 : position;
    }
}

void RowHistory::drop_companion(int32_t slot, int32_t position) {
    OfSlot & of = at(slot);
    if (static_cast<size_t>(position) < of.companion.size()) {
        of.companion.resize(static_cast<size_t>(position));
    }
    if (position < of.n_checked) {
        of.n_checked = of.wrong.n > 0 ? 0 : position;
    }
}

void RowHistory::forget(int32_t slot) {
    at(slot).rows.clear();
    at(slot).companion.clear();
    at(slot).trusted.clear();
    at(slot).n_checked = 0;
}

void RowHistory::shift(int32_t slot, int32_t n_keep, int32_t n_discard) {
    OfSlot &   of   = at(slot);
    const auto move = [&](auto & all) {
        const auto first = std::min(all.size(), static_cast<size_t>(n_keep)), last = std::min(all.size(), static_cast<size_t>(n_keep + n_discard));
        all.erase(all.begin() + static_cast<ptrdiff_t>(first), all.begin() + static_cast<ptrdiff_t>(last));
    };
    move(of.rows);
    move(of.companion);
    if (static_cast<size_t>(n_keep) < of.companion.size()) {
        of.companion[static_cast<size_t>(n_keep)] = {};    // made from a row that is forgotten
    }
    of.n_checked = 0;
}

bool RowHistory::is_right(const OfSlot & of, std::span<const int32_t> tokens, size_t position) {
    const Made & made = of.companion[position];
    if (made.token < 0) {
        return true;
    }
    if (position >= tokens.size() || made.token != tokens[position]) {
        return false;
    }
    if (position == 0) {
        return made.digest == 0;    // nothing comes before the first token
    }
    if (position > of.rows.size() || of.rows[position - 1].front().token < 0) {
        return true;    // nobody watched when that row was made
    }
    if (std::find(of.trusted.begin(), of.trusted.end(), made.digest) != of.trusted.end()) {
        return true;
    }
    const auto & rows = of.rows[position - 1];
    return std::any_of(rows.begin(), rows.end(), [&](const Made & row) { return row.digest == made.digest && row.token == tokens[position - 1]; });
}

RowHistory::Wrong RowHistory::find_wrong(int32_t slot, std::span<const int32_t> tokens, int32_t n, bool is_all) {
    OfSlot & of = at(slot);
    if (is_all || of.n_checked == 0) {
        of.n_checked = 0;
        of.wrong     = {};
    }
    const size_t end = std::min(of.companion.size(), static_cast<size_t>(std::max(0, n)));
    for (size_t position = static_cast<size_t>(of.n_checked); position < end; position++) {
        if (!is_right(of, tokens, position)) {
            of.wrong.n++;
            of.wrong.first = of.wrong.first < 0 ? static_cast<int32_t>(position) : of.wrong.first;
        }
    }
    of.n_checked = std::max(of.n_checked, static_cast<int32_t>(end));
    return of.wrong;
}

}  // namespace draftscope
