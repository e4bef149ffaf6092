#include "rpc.h"

#include "error.h"

#include <ggml-rpc.h>

namespace draftscope {

namespace {

constexpr const char * backend_name = "RPC";

}  // namespace

RpcProtocol rpc_protocol() {
    return ggml_backend_reg_by_name(backend_name) == nullptr ? RpcProtocol{} : RpcProtocol{RPC_PROTO_MAJOR_VERSION, RPC_PROTO_MINOR_VERSION};
}

std::vector<ggml_backend_dev_t> rpc_devices(const std::string & endpoint) {
    ggml_backend_reg_t backend = ggml_backend_reg_by_name(backend_name);
    void *             found   = backend == nullptr ? nullptr : ggml_backend_reg_get_proc_address(backend, "ggml_backend_rpc_add_server");
    if (found == nullptr) {
        throw EngineError("rpc_failed", "This libggml was built without RPC, so no model can be loaded on RPC servers.",
                          "Install a llama-cpp-python that was built with CMAKE_ARGS=-DGGML_RPC=ON.");
    }
    const auto         add_server = reinterpret_cast<decltype(&ggml_backend_rpc_add_server)>(found);
    ggml_backend_reg_t server     = add_server(endpoint.c_str());
    if (server == nullptr) {
        throw EngineError("rpc_failed", "The RPC server " + endpoint + " has no device.");
    }
    std::vector<ggml_backend_dev_t> devices;
    for (size_t i = 0; i < ggml_backend_reg_dev_count(server); i++) {
        devices.push_back(ggml_backend_reg_dev_get(server, i));
    }
    return devices;
}

BackendPtr rpc_connection(ggml_backend_dev_t device) {
    return BackendPtr(ggml_backend_dev_init(device, nullptr));
}

bool is_rpc(ggml_backend_dev_t device) {
    return std::string(ggml_backend_reg_name(ggml_backend_dev_backend_reg(device))) == backend_name;
}

}  // namespace draftscope
