#include "model.h"

#include "error.h"
#include "rpc.h"

#include <algorithm>
#include <exception>
#include <limits>

namespace draftscope {

namespace {

std::vector<ggml_backend_dev_t> named_devices(const std::vector<std::string> & names) {
    std::vector<ggml_backend_dev_t> found;
    for (const std::string & name : names) {
        ggml_backend_dev_t device = ggml_backend_dev_by_name(name.c_str());
        if (device == nullptr) {
            std::string known;
            for (const Device & other : list_devices()) {
                known += (known.empty() ? "" : ", ") + other.name;
            }
            throw EngineError("bad_settings", "There is no device named '" + name + "'.", "Choose one of: " + known + ".");
        }
        found.push_back(device);
    }
    return found;
}

size_t count_devices(enum ggml_backend_dev_type type) {
    size_t n = 0;
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        n += ggml_backend_dev_type(ggml_backend_dev_get(i)) == type ? 1 : 0;
    }
    return n;
}

// What libllama would take by itself: every GPU once (two backends may offer the same), or else those of the chipset.
std::vector<ggml_backend_dev_t> local_gpus() {
    std::vector<ggml_backend_dev_t> found;
    std::vector<std::string>        ids;
    const bool has_gpu = count_devices(GGML_BACKEND_DEVICE_TYPE_GPU) > 0;
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t device = ggml_backend_dev_get(i);
        if (ggml_backend_dev_type(device) != (has_gpu ? GGML_BACKEND_DEVICE_TYPE_GPU : GGML_BACKEND_DEVICE_TYPE_IGPU)) {
            continue;
        }
        ggml_backend_dev_props props;
        ggml_backend_dev_get_props(device, &props);
        const std::string id = props.device_id == nullptr ? "" : props.device_id;
        if (id.empty() || std::find(ids.begin(), ids.end(), id) == ids.end()) {
            ids.push_back(id);
            found.push_back(device);
        }
    }
    return found;
}

// libllama asserts that all devices fit into its tables, the CPU among them.
void check_number(size_t n_devices) {
    const size_t n_most = llama_max_devices() - 1 - count_devices(GGML_BACKEND_DEVICE_TYPE_ACCEL);
    if (n_devices > n_most) {
        throw EngineError("bad_settings", "The model would be put on " + std::to_string(n_devices) + " devices; llama.cpp can use " +
                                              std::to_string(n_most) + " at a time.",
                          "Name fewer devices or RPC servers.");
    }
}

struct ProgressState {
    const Model::Progress * progress;
    bool                    cancelled = false;
    std::exception_ptr      failure;    // what progress threw: it must not pass through libllama, which would call it a bad file
};

bool on_progress(float fraction, void * data) {
    auto * state = static_cast<ProgressState *>(data);
    try {
        state->cancelled = !(*state->progress)(fraction) || state->cancelled;
    } catch (...) {
        state->cancelled = true;
        state->failure   = std::current_exception();
    }
    return !state->cancelled;
}

// Rounds need a decoder with a memory that goes token by token.
void check_generates(const Model & model) {
    const llama_model * m = model.get();
    const char *        why = llama_model_has_encoder(m)   ? "has an encoder"
                            : !llama_model_has_decoder(m)  ? "has no decoder"
                            : llama_model_is_diffusion(m)  ? "generates by diffusion"
                                                           : nullptr;
    if (why != nullptr) {
        throw EngineError("unsupported_model", "This model (" + model.metadata("general.architecture") + ") " + why +
                                                   "; Draftscope runs models that generate text token by token.");
    }
}

}  // namespace

std::vector<Device> list_devices() {
    std::vector<Device> devices;
    for (const bool cpu : {false, true}) {
        for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
            ggml_backend_dev_t device = ggml_backend_dev_get(i);
            if ((ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU) == cpu) {
                Device entry{ggml_backend_dev_name(device), ggml_backend_dev_description(device), 0, 0};
                ggml_backend_dev_memory(device, &entry.free_bytes, &entry.total_bytes);
                devices.push_back(entry);
            }
        }
    }
    return devices;
}

// The devices for the model's layers, ended by a null; empty: libllama's own choice. The CPU takes what they leave.
std::vector<ggml_backend_dev_t> Model::choose_devices(const ModelSettings & settings) {
    std::vector<ggml_backend_dev_t> chosen;
    for (const std::string & endpoint : settings.rpc_endpoints) {
        const auto of_server = rpc_devices(endpoint);
        connections.push_back(rpc_connection(of_server.front()));
        chosen.insert(chosen.end(), of_server.begin(), of_server.end());
    }
    const auto local = settings.devices.empty() && !chosen.empty() ? local_gpus() : named_devices(settings.devices);
    chosen.insert(chosen.end(), local.begin(), local.end());
    check_number(chosen.size());
    if (!chosen.empty()) {
        chosen.push_back(nullptr);
    }
    return chosen;
}

Model::Model(const ModelSettings & settings, const Progress & progress) : mtp_obstacle(settings.mtp_obstacle) {
    std::vector<ggml_backend_dev_t> devices = choose_devices(settings);
    ProgressState                   state{&progress, false, nullptr};

    llama_model_params params          = llama_model_default_params();
    params.load_mtp                    = mtp_obstacle.empty();
    params.n_gpu_layers                = settings.n_gpu_layers;
    params.load_mode                   = settings.use_mmap ? LLAMA_LOAD_MODE_MMAP : LLAMA_LOAD_MODE_NONE;
    params.devices                     = devices.empty() ? nullptr : devices.data();
    params.progress_callback           = on_progress;
    params.progress_callback_user_data = &state;

    model.reset(llama_model_load_from_file(settings.path.c_str(), params));
    if (state.failure != nullptr) {
        std::rethrow_exception(state.failure);
    }
    if (state.cancelled) {
        model.reset();
        throw EngineError("cancelled", "Loading was cancelled.");
    }
    if (model == nullptr) {
        throw EngineError("bad_file", "llama.cpp could not load '" + settings.path + "'.",
                          "The log has its own words. A file made for a newer llama.cpp needs a newer engine.");
    }
    check_generates(*this);
}

std::string Model::metadata(const char * key) const {
    const int length = llama_model_meta_val_str(model.get(), key, nullptr, 0);
    if (length < 0) {
        return "";
    }
    std::string value(static_cast<size_t>(length) + 1, '\0');
    llama_model_meta_val_str(model.get(), key, value.data(), value.size());
    value.resize(static_cast<size_t>(length));
    return value;
}

std::vector<std::string> Model::devices() const {
    std::vector<std::string> names;
    if (&llama_model_n_devices != nullptr && &llama_model_get_device != nullptr) {
        for (int i = 0; i < llama_model_n_devices(model.get()); i++) {
            ggml_backend_dev_t device = llama_model_get_device(model.get(), i);
            std::string        name   = ggml_backend_dev_name(device);
            if (is_rpc(device)) {
                name += std::string(" (") + ggml_backend_dev_description(device) + ")";    // which is its endpoint
            }
            names.push_back(std::move(name));
        }
    }
    if (names.empty()) {
        names.emplace_back("CPU");
    }
    return names;
}

std::vector<int32_t> Model::tokenize(const std::string & text, bool add_special, bool parse_special) const {
    if (!has_tokenizer()) {
        throw EngineError("bad_prompt", "This model file has no tokenizer, so text cannot be turned into tokens.",
                          "Give the prompt as token ids.");
    }
    if (text.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max() / 2)) {
        throw EngineError("bad_prompt", "The prompt is longer than 1 GiB.");
    }
    const auto           length = static_cast<int32_t>(text.size());
    std::vector<int32_t> tokens(text.size() + 8);
    int32_t n = llama_tokenize(vocab(), text.data(), length, tokens.data(), static_cast<int32_t>(tokens.size()), add_special, parse_special);
    if (n < 0 && n != std::numeric_limits<int32_t>::min()) {
        tokens.resize(static_cast<size_t>(-n));
        n = llama_tokenize(vocab(), text.data(), length, tokens.data(), static_cast<int32_t>(tokens.size()), add_special, parse_special);
    }
    if (n < 0) {
        throw EngineError("bad_prompt", "The prompt could not be turned into tokens.");
    }
    tokens.resize(static_cast<size_t>(n));
    return tokens;
}

std::string Model::piece(int32_t token, bool with_control) const {
    if (!has_tokenizer()) {
        std::string number = std::to_string(token);    // nothing better to show for a model without a tokenizer
        number.insert(number.begin(), ' ');
        return number;
    }
    std::string bytes(32, '\0');
    int32_t     n = llama_token_to_piece(vocab(), token, bytes.data(), static_cast<int32_t>(bytes.size()), 0, with_control);
    if (n < 0) {
        bytes.resize(static_cast<size_t>(-n));
        n = llama_token_to_piece(vocab(), token, bytes.data(), static_cast<int32_t>(bytes.size()), 0, with_control);
    }
    bytes.resize(static_cast<size_t>(n < 0 ? 0 : n));
    return bytes;
}

}  // namespace draftscope
