#include "mtp_state.h"

#include "error.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

namespace draftscope {

namespace {

constexpr uint32_t magic   = 0x52544d44;    // "DMTR"
constexpr uint32_t version = 1;

struct Header {
    uint32_t magic, version, width, n_rows;
    int32_t  n_positions, n_missing, n_heads;
    uint32_t nothing;
};
static_assert(sizeof(Header) == 32);

[[noreturn]] void refuse(const std::string & why) {
    throw EngineError("bad_state", "The hidden rows of the saved state were refused: " + why + ".", "Nothing was changed.");
}

}  // namespace

std::vector<uint8_t> encode(const MtpState & state, int32_t width) {
    const Header header{magic, version, static_cast<uint32_t>(width), static_cast<uint32_t>(state.rows.size() / static_cast<size_t>(width)),
                        state.n_positions, state.n_missing, state.n_heads, 0};
    const size_t         n_bytes = state.rows.size() * sizeof(float);
    std::vector<uint8_t> bytes(sizeof header + n_bytes);
    std::memcpy(bytes.data(), &header, sizeof header);
    if (n_bytes > 0) {
        std::memcpy(bytes.data() + sizeof header, state.rows.data(), n_bytes);
    }
    return bytes;
}

MtpState decode_mtp_state(const std::vector<uint8_t> & bytes, int32_t width, int32_t most_rows) {
    Header header{};
    if (bytes.size() < sizeof header) {
        refuse("they have " + std::to_string(bytes.size()) + " bytes, fewer than their header");
    }
    std::memcpy(&header, bytes.data(), sizeof header);
    if (header.magic != magic) {
        refuse("they do not begin as hidden rows do");
    }
    if (header.version != version) {
        refuse("they have version " + std::to_string(header.version) + ", and this program reads version " + std::to_string(version));
    }
    if (header.width != static_cast<uint32_t>(width)) {
        refuse("they are " + std::to_string(header.width) + " wide, those of this model " + std::to_string(width));
    }
    if (header.n_rows > static_cast<uint32_t>(most_rows)) {
        refuse("there are " + std::to_string(header.n_rows) + ", and a slot has " + std::to_string(most_rows) + " at most");
    }
    if (header.n_positions < 0 || header.n_positions >= most_rows) {
        refuse("they begin at position " + std::to_string(header.n_positions) + ", which no slot has");
    }
    if (header.n_missing < 0 || header.n_missing > header.n_positions) {
        refuse("they lack " + std::to_string(header.n_missing) + " of " + std::to_string(header.n_positions) + " positions");
    }
    if (header.n_heads < 0) {
        refuse("they are of " + std::to_string(header.n_heads) + " heads");
    }
    const size_t n_floats = static_cast<size_t>(header.n_rows) * header.width;
    if (bytes.size() != sizeof header + n_floats * sizeof(float)) {
        refuse("they have " + std::to_string(bytes.size()) + " bytes instead of " + std::to_string(sizeof header + n_floats * sizeof(float)));
    }
    MtpState state{header.n_positions, header.n_missing, std::vector<float>(n_floats), header.n_heads};
    if (n_floats > 0) {
        std::memcpy(state.rows.data(), bytes.data() + sizeof header, n_floats * sizeof(float));
    }
    if (!std::all_of(state.rows.begin(), state.rows.end(), [](float x) { return std::isfinite(x); })) {
        refuse("one holds a value that is not a number");
    }
    return state;
}

}  // namespace draftscope
