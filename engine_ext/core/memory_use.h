// Where the memory of a loaded model is: measured from libllama's own buffers, by kind.
#pragma once

#include "checkpoint.h"

#include <string>
#include <vector>

namespace draftscope {

// The same kinds as in draftscope.engine.protocol. All slots together; device: memory that is not the host's.
struct MemoryUse {
    std::string kind;
    int64_t     host_bytes = 0, device_bytes = 0;
};

// n_steps_back, n_spares: of the recurrent memory, which has a state for each of n_slots, its steps back, and the spares;
// state_bytes: of one state without headers, 0 when nothing is recurrent. draft: null when nothing is drafted.
std::vector<MemoryUse> measure_memory(const Decoder & target, const Decoder * draft, const SavedBytes & saved, int64_t state_bytes,
                                      int32_t n_slots, int32_t n_steps_back, int32_t n_spares);

// Bytes of the tensors in a slot's recurrent state; the slot has one. 0: the memory has none.
int64_t state_tensor_bytes(const Decoder & target, int32_t slot);

}  // namespace draftscope
