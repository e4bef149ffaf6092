// Single-producer, single-consumer ring of records in memory that the caller provides and keeps alive: in a worker
// process shared memory of the parent, which can still read it after this process died. Layout: engine/ring.py.
#pragma once

#include "records.h"

#include <cstddef>
#include <cstdint>

namespace draftscope {

int64_t now_ns();    // monotonic clock

class EventRing {
public:
    // Attach to a ring that its reader initialised. Throws EngineError(protocol) when the header is not of this version.
    EventRing(void * memory, size_t size_bytes);

    // Append; when the reader is a full ring behind, the record is dropped and counted. Engine thread only.
    void push(Record record);

    // What the engine is at: readable after a crash. Engine thread only.
    void set_operation(Phase phase, int32_t round, int32_t slot = engine_track);

    // Bytes from the beginning of the memory to the end of the ring.
    size_t size_bytes() const;

    // Sign of life; any thread.
    void beat();

private:
    struct Header;
    Header * header;
    Record * records;
    uint64_t capacity;
    uint64_t sequence;
};

}  // namespace draftscope
