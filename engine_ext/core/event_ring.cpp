#include "event_ring.h"

#include "error.h"

#include <atomic>
#include <chrono>

namespace draftscope {

int64_t now_ns() {
    using namespace std::chrono;
    return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

struct EventRing::Header {
    uint32_t magic;
    uint32_t version;
    uint32_t record_size;
    uint32_t capacity;
    uint64_t n_written;
    uint64_t n_read;
    uint64_t n_dropped;
    int64_t  heartbeat_ns;
    uint32_t operation;
    int32_t  operation_round;
    int32_t  operation_slot;
};

namespace {
constexpr size_t   header_bytes = 128;
constexpr uint32_t ring_magic   = 0x47525344;    // "DSRG"
constexpr uint32_t ring_version = 1;

template <typename T> T load(T & field, std::memory_order order) {
    return std::atomic_ref<T>(field).load(order);
}
template <typename T> void store(T & field, T value, std::memory_order order = std::memory_order_relaxed) {
    std::atomic_ref<T>(field).store(value, order);
}
}  // namespace

EventRing::EventRing(void * memory, size_t size_bytes)
    : header(static_cast<Header *>(memory)), records(reinterpret_cast<Record *>(static_cast<char *>(memory) + header_bytes)),
      capacity(0), sequence(0) {
    if (size_bytes < header_bytes || header->magic != ring_magic || header->version != ring_version ||
        header->record_size != sizeof(Record)) {
        throw EngineError("protocol", "The memory given for trace records is not a ring of this version.");
    }
    capacity = header->capacity;
    if (capacity == 0 || (capacity & (capacity - 1)) != 0 || size_bytes < header_bytes + capacity * sizeof(Record)) {
        throw EngineError("protocol", "The memory given for trace records is smaller than its header says.");
    }
    sequence = header->n_written + header->n_dropped;
}

size_t EventRing::size_bytes() const {
    return header_bytes + capacity * sizeof(Record);
}

void EventRing::push(Record record) {
    record.sequence       = sequence++;
    const uint64_t n      = header->n_written;    // written by this thread only
    const uint64_t n_read = load(header->n_read, std::memory_order_acquire);
    if (n - n_read >= capacity) {
        store(header->n_dropped, header->n_dropped + 1);
    } else {
        records[n & (capacity - 1)] = record;
        store(header->n_written, n + 1, std::memory_order_release);
    }
    beat();
}

void EventRing::set_operation(Phase phase, int32_t round, int32_t slot) {
    store(header->operation, static_cast<uint32_t>(phase));
    store(header->operation_round, round);
    store(header->operation_slot, slot);
    beat();
}

void EventRing::beat() {
    store(header->heartbeat_ns, now_ns());
}

}  // namespace draftscope
