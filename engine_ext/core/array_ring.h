// Single-producer, single-consumer ring of side arrays, behind the ring of records in the same memory. Layout:
// engine/array_ring.py. Engine thread only.
#pragma once

#include "probe_records.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace draftscope {

class ArrayRing {
public:
    ArrayRing() = default;    // none: whatever is pushed goes nowhere

    // The ring that begins in the memory behind a ring of records, if there is memory. Throws EngineError(protocol) when
    // what is there is no ring of this version.
    ArrayRing(void * memory, size_t size_bytes);

    // Append; when the reader is a full ring behind, the array is dropped and counted. t_start_ns names its probe.
    void push(int64_t t_start_ns, ArrayKind kind, std::span<const float> values, std::initializer_list<size_t> shape);
    void push(int64_t t_start_ns, ArrayKind kind, std::span<const double> values, std::initializer_list<size_t> shape);
    void push(int64_t t_start_ns, ArrayKind kind, std::span<const int32_t> values, std::initializer_list<size_t> shape);
    void push(int64_t t_start_ns, ArrayKind kind, std::span<const int64_t> values, std::initializer_list<size_t> shape);
    void push(const ProbeResult & result);

private:
    struct Header;
    struct Entry;
    void put(int64_t t_start_ns, ArrayKind kind, uint32_t dtype, const void * values, size_t n_bytes, std::initializer_list<size_t> shape);

    Header *  header   = nullptr;
    uint8_t * data     = nullptr;
    uint64_t  capacity = 0;
};

}  // namespace draftscope
