// RPC servers as devices, through ggml's registry: nothing links to the RPC backend, which a libggml may lack.
//
// libggml ends the process when a server cannot be reached or speaks another version, and waits for ever for one that
// is silent. Whoever calls rpc_devices() has asked the server before (draftscope.engine.rpc).
#pragma once

#include "llama_api.h"

#include <string>
#include <vector>

namespace draftscope {

struct RpcProtocol {
    int32_t major = 0, minor = 0;    // 0, 0: this libggml has no RPC backend
};

RpcProtocol rpc_protocol();

// The devices of a server; they live until the process ends, like those of ggml's registry, which does not list them:
// a model that names no devices is not put on them. endpoint: a.b.c.d:port.
// Throws EngineError(rpc_failed): no RPC backend in this libggml, or the server has no devices.
std::vector<ggml_backend_dev_t> rpc_devices(const std::string & endpoint);

// Keeps the connection to the server of a device open: libggml otherwise closes and opens one around every question, and
// another program could get in between.
BackendPtr rpc_connection(ggml_backend_dev_t device);

bool is_rpc(ggml_backend_dev_t device);

}  // namespace draftscope
