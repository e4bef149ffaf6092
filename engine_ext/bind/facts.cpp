// What is installed: devices, symbols, versions, layout of the records; and libllama's log.
#include "engine.h"
#include "register.h"
#include "rpc.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <dlfcn.h>

#include <functional>
#include <memory>

namespace nb = nanobind;

namespace draftscope::bind {

namespace {

// The sink of libllama's log; kept for the life of the process, since libllama may log from any thread at any time.
nb::object * log_sink = nullptr;

void on_log(ggml_log_level level, const char * text, void *) {
    nb::gil_scoped_acquire gil;
    nb::error_scope        pending;    // an engine that goes down with an exception logs, too
    if (log_sink == nullptr) {
        return;
    }
    try {
        (*log_sink)(static_cast<int>(level), nb::bytes(text, std::char_traits<char>::length(text)));
    } catch (nb::python_error & error) {
        error.discard_as_unraisable("libllama's log");
    }
}

void set_log_sink(nb::object sink) {
    delete log_sink;
    log_sink = sink.is_none() ? nullptr : new nb::object(std::move(sink));
    llama_log_set(log_sink == nullptr ? nullptr : on_log, nullptr);
}

std::string library_path() {
    Dl_info found{};
    return dladdr(reinterpret_cast<const void *>(&llama_backend_init), &found) != 0 && found.dli_fname != nullptr ? found.dli_fname : "";
}

nb::list devices() {
    nb::list list;
    for (const Device & device : list_devices()) {
        list.append(nb::make_tuple(device.name, device.description, device.total_bytes, device.free_bytes));
    }
    return list;
}

nb::dict record_layout() {
    nb::dict layout;
    const Record record;
    const auto   offset = [&record](const auto & field) { return reinterpret_cast<const char *>(&field) - reinterpret_cast<const char *>(&record); };
    layout["sequence"]    = offset(record.sequence);
    layout["t_start_ns"]  = offset(record.t_start_ns);
    layout["duration_ns"] = offset(record.duration_ns);
    layout["round"]       = offset(record.round);
    layout["slot"]        = offset(record.slot);
    layout["kind"]        = offset(record.kind);
    layout["code"]        = offset(record.code);
    layout["position"]    = offset(record.position);
    layout["token"]       = offset(record.token);
    layout["n"]           = offset(record.n);
    layout["m"]           = offset(record.m);
    layout["value"]       = offset(record.value);
    layout["size_bytes"]  = offset(record.size_bytes);
    return layout;
}

}  // namespace

void register_facts(nb::module_ & m) {
    m.def("set_log_sink", &set_log_sink, nb::arg("sink").none(), "Call sink(level: int, text: bytes) for every log text; None silences it.");
    m.def("library_path", &library_path, "Path of the libllama in use.");
    m.def("library_version", [] { return std::string(llama_version()); });
    m.def("system_description", [] { return std::string(llama_print_system_info()); });
    m.def("devices", &devices, "(name, description, total_bytes, free_bytes) of each device, the CPU last.");
    m.def("rpc_protocol", [] {
        const RpcProtocol protocol = rpc_protocol();
        return nb::make_tuple(protocol.major, protocol.minor);
    }, "(major, minor) of the RPC protocol that this libggml speaks; (0, 0) when it has no RPC backend.");
    m.def("missing_symbols", &missing_symbols, "Staging functions that this libllama lacks.");
    m.def("missing_family_symbols", &missing_family_symbols, "Those that only chained heads and assistants need.");
    m.def("patches", &patches, "Names of our patches that this libllama carries, in their order.");
    m.def("grants_rollback", &grants_rollback, nb::arg("architecture"), "Whether this libllama gives an architecture native rollback.");
    m.def("record_layout", &record_layout, "Byte offset of each column of a record.");
    m.def("count_graphs", [](const std::vector<std::pair<int, int>> & rows, bool is_sequential) {
        std::vector<Rows> brought;
        for (const auto & [slot, n] : rows) {
            brought.push_back({slot, n});
        }
        return count_graphs(brought, is_sequential);
    }, nb::arg("rows"), nb::arg("is_sequential"), "Graphs that a decode of (slot, tokens) rows is cut into; for tests.");
    m.def("default_threads", &default_threads);
}

}  // namespace draftscope::bind
