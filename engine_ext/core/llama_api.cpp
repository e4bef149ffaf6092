#include "llama_api.h"

#include <initializer_list>
#include <sstream>

namespace draftscope {

namespace {

struct Symbol {
    bool         is_there;
    const char * name;
};

std::vector<std::string> missing_of(std::initializer_list<Symbol> symbols) {
    std::vector<std::string> missing;
    for (const Symbol & symbol : symbols) {
        if (!symbol.is_there) {
            missing.emplace_back(symbol.name);
        }
    }
    return missing;
}

}  // namespace

std::vector<std::string> missing_symbols() {
    return missing_of({{&llama_set_embeddings_nextn != nullptr, "llama_set_embeddings_nextn"},
                       {&llama_get_embeddings_nextn_ith != nullptr, "llama_get_embeddings_nextn_ith"}});
}

std::vector<std::string> missing_family_symbols() {
    return missing_of({{&llama_set_nextn_layer_offset != nullptr, "llama_set_nextn_layer_offset"},
                       {&llama_get_ctx_other != nullptr, "llama_get_ctx_other"}});
}

std::vector<std::string> patches() {
    std::vector<std::string> names;
    if (&draftscope_patches != nullptr) {
        std::istringstream lines(draftscope_patches());
        for (std::string name; std::getline(lines, name);) {
            names.push_back(name);
        }
    }
    return names;
}

bool grants_rollback(const std::string & architecture) {
    if (&llm_arch_from_string == nullptr || &llm_arch_supports_rs_rollback == nullptr) {
        return false;
    }
    const llm_arch arch = llm_arch_from_string(architecture);
    return llm_arch_supports_rs_rollback(arch);
}

}  // namespace draftscope
