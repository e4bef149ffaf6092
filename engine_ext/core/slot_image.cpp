#include "slot_image.h"

#include "error.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace draftscope {

namespace {

constexpr uint32_t magic   = 0x4c535344;    // "DSSL"
constexpr uint32_t version = 1;

// The parts follow in this order; the hash of all bytes before it comes last.
struct Header {
    uint32_t magic, version;
    int32_t  n_tokens, n_decoded;
    uint64_t target_bytes, draft_bytes, rows_bytes;    // rows_bytes 0: no hidden rows and no draft state
};
static_assert(sizeof(Header) == 40);

[[noreturn]] void refuse(const std::string & why) {
    throw EngineError("bad_state", "The saved slot was refused: " + why + ".", "Nothing was changed.");
}

uint64_t hash_of(const uint8_t * bytes, size_t n) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i += 8) {    // eight bytes a step: a state has millions
        uint64_t word = 0;
        std::memcpy(&word, bytes + i, std::min<size_t>(8, n - i));
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

template <typename T> void append(std::vector<uint8_t> & bytes, const T * data, size_t n) {
    const auto * first = reinterpret_cast<const uint8_t *>(data);
    bytes.insert(bytes.end(), first, first + n * sizeof(T));
}

// Sizes that come from a file: no sum of them may overflow.
bool is_sound(const Header & header, size_t n_bytes) {
    const uint64_t most = n_bytes;
    if (header.n_tokens < 1 || header.n_decoded < 0 || header.n_decoded > header.n_tokens || header.target_bytes > most || header.draft_bytes > most ||
        header.rows_bytes > most) {
        return false;
    }
    const uint64_t n_all = sizeof header + static_cast<uint64_t>(header.n_tokens) * sizeof(int32_t) + header.target_bytes + header.draft_bytes + header.rows_bytes;
    return n_all + sizeof(uint64_t) == most;
}

Header check(const std::vector<uint8_t> & bytes) {
    Header header{};
    if (bytes.size() < sizeof header + sizeof(uint64_t)) {
        refuse("it has " + std::to_string(bytes.size()) + " bytes, fewer than its header");
    }
    std::memcpy(&header, bytes.data(), sizeof header);
    if (header.magic != magic) {
        refuse("it does not begin as a saved slot does");
    }
    if (header.version != version) {
        refuse("it has version " + std::to_string(header.version) + ", and this program reads version " + std::to_string(version));
    }
    if (!is_sound(header, bytes.size())) {
        refuse("its sizes do not add up; it is cut off or damaged");
    }
    uint64_t hash = 0;
    std::memcpy(&hash, bytes.data() + bytes.size() - sizeof hash, sizeof hash);
    if (hash != hash_of(bytes.data(), bytes.size() - sizeof hash)) {
        refuse("its bytes are not those that were saved");
    }
    return header;
}

}  // namespace

int64_t SlotImage::size_bytes() const {
    size_t sum = tokens.size() * sizeof(int32_t) + target.size() + draft.size() + rows.rows.size() * sizeof(float);
    for (const PromptCheckpoint & checkpoint : checkpoints) {
        sum += static_cast<size_t>(checkpoint.size_bytes());
    }
    return static_cast<int64_t>(sum);
}

std::vector<uint8_t> encode(const SlotImage & image, int32_t width) {
    const std::vector<uint8_t> rows = image.has_rows ? encode(image.rows, width) : std::vector<uint8_t>{};
    const Header header{magic, version, static_cast<int32_t>(image.tokens.size()), image.n_decoded, image.target.size(), image.draft.size(), rows.size()};
    std::vector<uint8_t> bytes;
    bytes.reserve(sizeof header + image.tokens.size() * sizeof(int32_t) + image.target.size() + image.draft.size() + rows.size() + sizeof(uint64_t));
    append(bytes, &header, 1);
    append(bytes, image.tokens.data(), image.tokens.size());
    append(bytes, image.target.data(), image.target.size());
    append(bytes, image.draft.data(), image.draft.size());
    append(bytes, rows.data(), rows.size());
    const uint64_t hash = hash_of(bytes.data(), bytes.size());
    append(bytes, &hash, 1);
    return bytes;
}

SlotImage decode_slot_image(const std::vector<uint8_t> & bytes, int32_t width, int32_t n_vocab, int32_t n_ctx) {
    const Header header = check(bytes);
    if (header.n_tokens >= n_ctx) {
        refuse("it holds " + std::to_string(header.n_tokens) + " tokens, and a slot has room for " + std::to_string(n_ctx - 1));
    }
    const uint8_t * next = bytes.data() + sizeof header;
    const auto      cut  = [&next](size_t n) {
        const uint8_t * first = next;
        next += n;
        return std::vector<uint8_t>(first, next);
    };
    SlotImage image;
    image.n_decoded = header.n_decoded;
    image.tokens.resize(static_cast<size_t>(header.n_tokens));
    std::memcpy(image.tokens.data(), next, image.tokens.size() * sizeof(int32_t));
    next += image.tokens.size() * sizeof(int32_t);
    if (std::any_of(image.tokens.begin(), image.tokens.end(), [n_vocab](int32_t token) { return token < 0 || token >= n_vocab; })) {
        refuse("it names tokens outside the vocabulary of this model");
    }
    image.target = cut(header.target_bytes);
    image.draft  = cut(header.draft_bytes);
    if (header.rows_bytes > 0) {
        image.has_rows = true;
        image.rows     = decode_mtp_state(cut(header.rows_bytes), width, header.n_tokens + 1);
        if (image.rows.n_positions > header.n_tokens) {
            refuse("its hidden rows begin behind its last token");
        }
    }
    return image;
}

}  // namespace draftscope
