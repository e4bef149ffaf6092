#include "settings.h"

#include "error.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <thread>

namespace draftscope {

namespace {

constexpr int32_t max_draft   = 16;
constexpr int32_t max_threads = 256;

}  // namespace

void check_range(const char * what, double value, double low, double high) {
    if (!(value >= low && value <= high)) {
        const auto text = [](double x) {
            std::ostringstream out;
            out << std::setprecision(10) << x;
            return out.str();
        };
        throw EngineError("bad_settings", std::string(what) + " is " + text(value) + ", outside " + text(low) + " to " + text(high) + ".");
    }
}

void check_settings(const ContextSettings & settings) {
    check_range("The number of slots", settings.n_slots, 1, max_slots);
    check_range("The context of a slot", settings.n_ctx, 16, 1 << 24);
    check_range("The draft length", settings.n_draft_max, 0, max_draft);
    check_range("The number of threads", settings.n_threads, 0, max_threads);
    check_range("The batch size", settings.n_batch, 32, 1 << 16);
    check_range("The memory for prompt checkpoints", static_cast<double>(settings.prompt_checkpoints_bytes), 0, 1e15);
    check_range("The spacing of prompt checkpoints", settings.prompt_checkpoint_spacing, 16, 1 << 20);
    check_range("The memory for cached prompts", static_cast<double>(settings.prompt_cache_bytes), 0, 1e15);
}

void check_sampling(const SamplingSettings & sampling) {
    check_range("The temperature", static_cast<double>(sampling.temperature), 0, 100);
    check_range("Top-k", sampling.top_k, 0, 1 << 30);
    check_range("Top-p", static_cast<double>(sampling.top_p), 0, 1);
    check_range("Min-p", static_cast<double>(sampling.min_p), 0, 1);
    check_range("The presence penalty", static_cast<double>(sampling.presence_penalty), -100, 100);
    check_range("The length that penalties look back", sampling.repeat_last_n, 0, 1 << 24);
    if (!(sampling.repeat_penalty > 0.0f && sampling.repeat_penalty <= 100.0f)) {
        throw EngineError("bad_settings", "The repetition penalty must be above 0 and at most 100; 1 switches it off.");
    }
}

int32_t default_threads() {
    const auto n = static_cast<int32_t>(std::max(1u, std::thread::hardware_concurrency()));
    return n <= 8 ? std::max(1, n - 1) : n / 2;
}

}  // namespace draftscope
