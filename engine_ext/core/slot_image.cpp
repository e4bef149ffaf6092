#include "slot_image.h"

#include "error.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

namespace draftscope {

namespace {

constexpr uint32_t magic   = 0x4c535344;    // "DSSL"
constexpr uint32_t version = 1;

// Prompt checkpoints that go along: enough for an edit of the last turns, without which a restored slot of a recurrent model
// would be prefilled from nothing.
constexpr size_t most_checkpoints = 4;

// The parts follow in this order, then the checkpoints; the hash of all bytes before it comes last.
struct Header {
    uint32_t magic, version;
    int32_t  n_tokens, n_decoded;
    uint64_t target_bytes, draft_bytes, rows_bytes;    // rows_bytes 0: no hidden rows and no draft state
    uint64_t n_checkpoints;
};
static_assert(sizeof(Header) == 48);

struct CheckpointHeader {
    int64_t  position;
    uint64_t state_bytes, rows_bytes;
};
static_assert(sizeof(CheckpointHeader) == 24);

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

// Cuts parts off bytes that come from a file: no size in them is believed.
class Reader {
public:
    Reader(const uint8_t * first, const uint8_t * end_) : next(first), end(end_) {}

    const uint8_t * take(uint64_t n) {
        if (n > static_cast<uint64_t>(end - next)) {
            refuse("its sizes do not add up; it is cut off or damaged");
        }
        return std::exchange(next, next + n);
    }
    std::vector<uint8_t> bytes(uint64_t n) {
        const uint8_t * first = take(n);
        return {first, first + n};
    }
    template <typename T> T value() {
        T found;
        std::memcpy(&found, take(sizeof found), sizeof found);
        return found;
    }
    bool is_at_end() const { return next == end; }

private:
    const uint8_t * next;
    const uint8_t * end;
};

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
    const bool has_state = header.target_bytes + header.draft_bytes + header.rows_bytes + header.n_checkpoints > 0;
    if (header.n_tokens < 1 || header.n_decoded < 0 || header.n_decoded > header.n_tokens || header.n_checkpoints > most_checkpoints ||
        has_state != (header.n_decoded > 0)) {
        refuse("its counts make no sense; it is damaged");
    }
    uint64_t hash = 0;
    std::memcpy(&hash, bytes.data() + bytes.size() - sizeof hash, sizeof hash);
    if (hash != hash_of(bytes.data(), bytes.size() - sizeof hash)) {
        refuse("its bytes are not those that were saved");
    }
    return header;
}

}  // namespace

void SlotImage::take_checkpoints(const std::vector<PromptCheckpoint> & of_slot) {
    checkpoints.clear();
    std::copy_if(of_slot.begin(), of_slot.end(), std::back_inserter(checkpoints), [this](const PromptCheckpoint & checkpoint) {
        return !has_rows || (checkpoint.rows.n_missing == rows.n_missing && checkpoint.rows.n_positions <= rows.n_positions);
    });
}

int64_t SlotImage::size_bytes() const {
    size_t sum = tokens.size() * sizeof(int32_t) + target.size() + draft.size() + rows.rows.size() * sizeof(float);
    for (const PromptCheckpoint & checkpoint : checkpoints) {
        sum += static_cast<size_t>(checkpoint.size_bytes());
    }
    return static_cast<int64_t>(sum);
}

std::vector<uint8_t> encode(const SlotImage & image, int32_t width) {
    const std::vector<uint8_t> rows = image.has_rows ? encode(image.rows, width) : std::vector<uint8_t>{};
    const size_t n_checkpoints = std::min(most_checkpoints, image.checkpoints.size());
    const Header header{magic, version, static_cast<int32_t>(image.tokens.size()), image.n_decoded, image.target.size(), image.draft.size(), rows.size(),
                        n_checkpoints};
    std::vector<uint8_t> bytes;
    bytes.reserve(sizeof header + static_cast<size_t>(image.size_bytes()) + 1024);
    append(bytes, &header, 1);
    append(bytes, image.tokens.data(), image.tokens.size());
    append(bytes, image.target.data(), image.target.size());
    append(bytes, image.draft.data(), image.draft.size());
    append(bytes, rows.data(), rows.size());
    for (size_t i = image.checkpoints.size() - n_checkpoints; i < image.checkpoints.size(); i++) {
        const PromptCheckpoint &   checkpoint = image.checkpoints[i];
        const std::vector<uint8_t> of_rows    = image.has_rows ? encode(checkpoint.rows, width) : std::vector<uint8_t>{};
        const CheckpointHeader     head{checkpoint.position, checkpoint.state.size(), of_rows.size()};
        append(bytes, &head, 1);
        append(bytes, checkpoint.state.data(), checkpoint.state.size());
        append(bytes, of_rows.data(), of_rows.size());
    }
    const uint64_t hash = hash_of(bytes.data(), bytes.size());
    append(bytes, &hash, 1);
    return bytes;
}

namespace {

// Rows that do not fit the positions would be paired with the wrong tokens.
void check_rows(const SlotImage & image, int32_t width) {
    const bool has_keys = image.has_rows && image.rows.n_heads > 0;    // an assistant reads those of the target
    if (has_keys == image.draft.empty()) {
        refuse("it has a state of the MTP context without hidden rows, or those without a state");
    }
    const int32_t n_known = image.rows.n_known(width), n_tokens = static_cast<int32_t>(image.tokens.size());
    if (image.has_rows && (n_known < image.n_decoded || n_known > n_tokens)) {
        refuse("its hidden rows are those of " + std::to_string(n_known) + " positions, and it has decoded " + std::to_string(image.n_decoded) + " of " +
               std::to_string(n_tokens) + " tokens");
    }
}

PromptCheckpoint read_checkpoint(Reader & reader, const SlotImage & image, int32_t width) {
    const auto head = reader.value<CheckpointHeader>();
    if (head.position < 1 || head.position > image.n_decoded || (!image.checkpoints.empty() && head.position <= image.checkpoints.back().position)) {
        refuse("a prompt checkpoint in it lies at position " + std::to_string(head.position) + ", where none can be");
    }
    PromptCheckpoint checkpoint;
    checkpoint.position = static_cast<int32_t>(head.position);
    checkpoint.state    = reader.bytes(head.state_bytes);
    if (image.has_rows) {
        checkpoint.rows = decode_mtp_state(reader.bytes(head.rows_bytes), width, checkpoint.position + 1);
        const MtpState & rows = checkpoint.rows;
        if (rows.n_known(width) != checkpoint.position || rows.n_positions > image.rows.n_positions || rows.n_missing != image.rows.n_missing) {
            refuse("the hidden rows of a prompt checkpoint in it are not those of its position");
        }
    }
    return checkpoint;
}

}  // namespace

SlotImage decode_slot_image(const std::vector<uint8_t> & bytes, int32_t width, int32_t n_vocab, int32_t n_ctx) {
    const Header header = check(bytes);
    if (header.n_tokens > n_ctx) {
        refuse("it holds " + std::to_string(header.n_tokens) + " tokens, and a slot has room for " + std::to_string(n_ctx));
    }
    Reader    reader(bytes.data() + sizeof header, bytes.data() + bytes.size() - sizeof(uint64_t));
    SlotImage image;
    image.n_decoded = header.n_decoded;
    image.tokens.resize(static_cast<size_t>(header.n_tokens));
    const size_t n_bytes = image.tokens.size() * sizeof(int32_t);
    std::memcpy(image.tokens.data(), reader.take(n_bytes), n_bytes);
    if (std::any_of(image.tokens.begin(), image.tokens.end(), [n_vocab](int32_t token) { return token < 0 || token >= n_vocab; })) {
        refuse("it names tokens outside the vocabulary of this model");
    }
    image.target = reader.bytes(header.target_bytes);
    image.draft  = reader.bytes(header.draft_bytes);
    if (header.rows_bytes > 0) {
        image.has_rows = true;
        image.rows     = decode_mtp_state(reader.bytes(header.rows_bytes), width, header.n_tokens + 1);
    }
    check_rows(image, width);
    for (uint64_t i = 0; i < header.n_checkpoints; i++) {
        image.checkpoints.push_back(read_checkpoint(reader, image, width));
    }
    if (!reader.is_at_end()) {
        refuse("there is more in it than its sizes say; it is damaged");
    }
    return image;
}

}  // namespace draftscope
