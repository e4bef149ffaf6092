// The only place that includes llama.h and declares the staging functions: libllama exports them with C++ linkage, but
// installs no header for them. They are weak, so that a library without one is found out at start (missing_symbols)
// instead of failing somewhere in a decode.
#pragma once

#include <ggml-backend.h>
#include <llama.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

enum llm_arch : int;

struct llama_memory_breakdown_data {
    size_t model = 0, context = 0, compute = 0;
};
using llama_memory_breakdown = std::map<ggml_backend_buffer_type_t, llama_memory_breakdown_data>;

#define DRAFTSCOPE_WEAK __attribute__((weak))
DRAFTSCOPE_WEAK void   llama_set_embeddings_nextn(llama_context * ctx, bool value, bool masked);
DRAFTSCOPE_WEAK float * llama_get_embeddings_nextn_ith(llama_context * ctx, int32_t i);
DRAFTSCOPE_WEAK void   llama_set_nextn_layer_offset(llama_context * ctx, int32_t offset);
DRAFTSCOPE_WEAK llama_context * llama_get_ctx_other(llama_context * ctx);
DRAFTSCOPE_WEAK int32_t llama_model_n_devices(const llama_model * model);
DRAFTSCOPE_WEAK ggml_backend_dev_t llama_model_get_device(const llama_model * model, int i);
DRAFTSCOPE_WEAK llama_memory_breakdown llama_get_memory_breakdown(const llama_context * ctx);
DRAFTSCOPE_WEAK llm_arch llm_arch_from_string(const std::string & name);
DRAFTSCOPE_WEAK bool llm_arch_supports_rs_rollback(const llm_arch & arch);
extern "C" DRAFTSCOPE_WEAK const char * draftscope_patches(void);    // only where our patches are
#undef DRAFTSCOPE_WEAK

namespace draftscope {

// Names of the staging functions without which nothing can be drafted, as far as this libllama lacks them.
std::vector<std::string> missing_symbols();

// Those without which chained heads draft one token a round, and assistants none.
std::vector<std::string> missing_family_symbols();

// Names of our patches that this libllama carries, in their order; empty for one that we did not build.
std::vector<std::string> patches();

// Whether this libllama grants native rollback to an architecture; false when it cannot be asked.
bool grants_rollback(const std::string & architecture);

struct ContextDeleter {
    void operator()(llama_context * ctx) const { llama_free(ctx); }
};
struct ModelDeleter {
    void operator()(llama_model * model) const { llama_model_free(model); }
};
struct SamplerDeleter {
    void operator()(llama_sampler * sampler) const { llama_sampler_free(sampler); }
};
struct BackendDeleter {
    void operator()(ggml_backend * backend) const { ggml_backend_free(backend); }
};
struct BatchDeleter {
    void operator()(llama_batch_ext * batch) const { llama_batch_ext_free(batch); }
};

using ContextPtr = std::unique_ptr<llama_context, ContextDeleter>;
using ModelPtr   = std::unique_ptr<llama_model, ModelDeleter>;
using SamplerPtr = std::unique_ptr<llama_sampler, SamplerDeleter>;
using BackendPtr = std::unique_ptr<ggml_backend, BackendDeleter>;
using BatchPtr   = std::unique_ptr<llama_batch_ext, BatchDeleter>;

}  // namespace draftscope
