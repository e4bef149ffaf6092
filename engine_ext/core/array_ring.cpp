#include "array_ring.h"

#include "error.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace draftscope {

struct ArrayRing::Header {
    uint32_t magic;
    uint32_t version;
    uint64_t capacity;
    uint64_t n_written;
    uint64_t n_read;
    uint64_t n_dropped;
};

struct ArrayRing::Entry {
    int64_t  t_start_ns = 0;
    uint64_t n_bytes    = 0;
    uint32_t kind       = 0;
    uint32_t dtype      = 0;
    uint32_t n_axes     = 0;
    uint32_t shape[4]   = {};
    uint32_t unused[5]  = {};
};

namespace {

constexpr uint64_t unit       = 64;    // bytes of a header, and what entries are filled up to
constexpr uint32_t ring_magic = 0x41525344;    // "DSRA"
constexpr uint32_t skip       = 0xFFFFFFFF;    // the kind of an entry that fills the rest

enum Dtype : uint32_t { Float32, Float64, Int32, Int64, Result };

uint64_t padded(uint64_t n_bytes) {
    return (n_bytes + unit - 1) / unit * unit;
}

}  // namespace

ArrayRing::ArrayRing(void * memory, size_t size_bytes) : header(static_cast<Header *>(memory)), data(static_cast<uint8_t *>(memory) + unit) {
    static_assert(sizeof(Header) <= unit && sizeof(Entry) == unit);
    if (size_bytes < unit || header->magic != ring_magic || header->version != 1 || header->capacity % unit != 0 || size_bytes < unit + header->capacity) {
        throw EngineError("protocol", "The memory given for side arrays is not a ring of this version.");
    }
    capacity = header->capacity;
}

void ArrayRing::push(int64_t t_start_ns, ArrayKind kind, std::span<const float> values, std::initializer_list<size_t> shape) {
    put(t_start_ns, kind, Float32, values.data(), values.size_bytes(), shape);
}

void ArrayRing::push(int64_t t_start_ns, ArrayKind kind, std::span<const double> values, std::initializer_list<size_t> shape) {
    put(t_start_ns, kind, Float64, values.data(), values.size_bytes(), shape);
}

void ArrayRing::push(int64_t t_start_ns, ArrayKind kind, std::span<const int32_t> values, std::initializer_list<size_t> shape) {
    put(t_start_ns, kind, Int32, values.data(), values.size_bytes(), shape);
}

void ArrayRing::push(int64_t t_start_ns, ArrayKind kind, std::span<const int64_t> values, std::initializer_list<size_t> shape) {
    put(t_start_ns, kind, Int64, values.data(), values.size_bytes(), shape);
}

void ArrayRing::push(const ProbeResult & result) {
    put(result.t_start_ns, ArrayKind::Result, Result, &result, sizeof result, {1});
}

void ArrayRing::put(int64_t t_start_ns, ArrayKind kind, uint32_t dtype, const void * values, size_t n_bytes, std::initializer_list<size_t> shape) {
    if (header == nullptr) {
        return;
    }
    uint64_t       n      = header->n_written;    // written by this thread only
    const uint64_t n_read = std::atomic_ref<uint64_t>(header->n_read).load(std::memory_order_acquire);
    const uint64_t size   = unit + padded(n_bytes), rest = capacity - n % capacity, gap = size > rest ? rest : 0;
    if (n + gap + size - n_read > capacity) {
        std::atomic_ref<uint64_t>(header->n_dropped).store(header->n_dropped + 1, std::memory_order_relaxed);
        return;
    }
    if (gap > 0) {
        const Entry fill{0, gap - unit, skip, 0, 0, {}, {}};
        std::memcpy(data + n % capacity, &fill, sizeof fill);
        n += gap;
    }
    Entry entry{t_start_ns, n_bytes, static_cast<uint32_t>(kind), dtype, static_cast<uint32_t>(shape.size()), {}, {}};
    std::transform(shape.begin(), shape.end(), entry.shape, [](size_t length) { return static_cast<uint32_t>(length); });
    std::memcpy(data + n % capacity, &entry, sizeof entry);
    if (n_bytes > 0) {
        std::memcpy(data + n % capacity + unit, values, n_bytes);
    }
    std::atomic_ref<uint64_t>(header->n_written).store(n + size, std::memory_order_release);
}

}  // namespace draftscope
