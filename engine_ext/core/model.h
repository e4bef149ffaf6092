// A loaded model: weights and vocabulary, no contexts.
#pragma once

#include "llama_api.h"
#include "settings.h"

#include <functional>
#include <string>

namespace draftscope {

struct Device {
    std::string name;
    std::string description;
    size_t      total_bytes = 0;
    size_t      free_bytes  = 0;
};

// Devices that a model can be put on, the CPU last.
std::vector<Device> list_devices();

class Model {
public:
    // Told the fraction loaded in [0, 1]; answers false to cancel. Called on the loading thread.
    using Progress = std::function<bool(float)>;

    // Throws what progress throws, and EngineError: bad_settings (unknown device, too many), rpc_failed, cancelled, bad_file (libllama's own words in the log),
    // unsupported_model (does not generate token by token).
    Model(const ModelSettings & settings, const Progress & progress);

    llama_model *       get() const { return model.get(); }
    const llama_vocab * vocab() const { return llama_model_get_vocab(model.get()); }
    int32_t             n_vocab() const { return llama_vocab_n_tokens(vocab()); }
    bool                is_recurrent() const { return llama_model_is_recurrent(model.get()) || llama_model_is_hybrid(model.get()); }
    int32_t             n_layer_nextn() const { return mtp_obstacle.empty() ? llama_model_n_layer_nextn(model.get()) : 0; }
    bool                has_tokenizer() const { return llama_vocab_type(vocab()) != LLAMA_VOCAB_TYPE_NONE; }

    std::string metadata(const char * key) const;    // empty when absent
    std::vector<std::string> devices() const;    // names; those of RPC servers with their endpoint

    // Throws EngineError(bad_prompt) when the model has no tokenizer or the text is too long.
    std::vector<int32_t> tokenize(const std::string & text, bool add_special, bool parse_special) const;

    // Bytes of a token: a part of a UTF-8 character at times; with_control: control tokens by name, else empty.
    std::string piece(int32_t token, bool with_control) const;

    // Why the file's MTP layers were not loaded; empty when they were, or when there are none.
    const std::string mtp_obstacle;

private:
    std::vector<ggml_backend_dev_t> choose_devices(const ModelSettings & settings);

    std::vector<BackendPtr> connections;    // to the RPC servers; given up after the model
    ModelPtr                model;
};

}  // namespace draftscope
