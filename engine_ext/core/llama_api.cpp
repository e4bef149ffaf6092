#include "llama_api.h"

#include <sstream>

namespace draftscope {

std::vector<std::string> missing_symbols() {
    std::vector<std::string> missing;
    const auto need = [&missing](bool there, const char * name) {
        if (!there) {
            missing.emplace_back(name);
        }
    };
    need(&llama_set_embeddings_nextn != nullptr, "llama_set_embeddings_nextn");
    need(&llama_get_embeddings_nextn_ith != nullptr, "llama_get_embeddings_nextn_ith");
    return missing;
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
