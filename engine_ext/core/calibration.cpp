#include "calibration.h"

#include "companion.h"
#include "error.h"
#include "event_ring.h"
#include "memory_use.h"
#include "target_context.h"

#include <time.h>

#include <algorithm>
#include <memory>

namespace draftscope {

namespace {

constexpr int64_t most_trial_bytes = int64_t{1} << 30;    // of states that a trial makes just to ask for rollback
constexpr int32_t n_prompt     = 4;     // tokens before the first measurement
constexpr int32_t n_cycles     = 9;
constexpr int64_t time_per_way = 50'000'000;    // ns

double median_us(std::vector<int64_t> durations_ns) {
    if (durations_ns.empty()) {
        return 0;
    }
    const auto middle = durations_ns.begin() + static_cast<ptrdiff_t>(durations_ns.size() / 2);
    std::nth_element(durations_ns.begin(), middle, durations_ns.end());
    return static_cast<double>(*middle) / 1e3;
}

// The clock for decodes. On the CPU that of the thread: it stands still while another program has the processor.
int64_t compute_ns(bool is_on_cpu) {
    timespec time{};
    clock_gettime(is_on_cpu ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
    return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

// Of decodes the best: other programs disturb them far more than the ways back differ.
double best_us(const std::vector<int64_t> & durations_ns) {
    return durations_ns.empty() ? 0 : static_cast<double>(*std::min_element(durations_ns.begin(), durations_ns.end())) / 1e3;
}

double round_of(const TimedWay & way, int32_t n_slots) {
    return way.verify_us + n_slots * (way.save_us + way.restore_us) + way.replay_us;
}

void check_not_cancelled(const ContextSettings & settings) {
    if (settings.keep_going && !settings.keep_going()) {
        throw EngineError("cancelled", "Loading was cancelled.");
    }
}

// One small context with all slots in it.
class Trial {
public:
    Trial(const Model & model_, const ContextSettings & settings_, Mechanism mechanism_, int64_t deadline_ns)
        : model(model_), settings(settings_), mechanism(mechanism_), deadline(deadline_ns), n_verify(1 + settings.n_draft_max),
          n_replay(1 + settings.n_draft_max / 2) {
        const int32_t n_ctx_slot = (n_prompt + (n_cycles + 2) * (n_verify + n_replay) + 255) / 256 * 256;
        settings.n_batch         = std::max(64, settings.n_slots * (n_verify + n_replay));
        const Layout layout      = layout_of(mechanism, settings.n_draft_max);
        target    = std::make_unique<Decoder>(model.get(), target_params(settings, layout, n_ctx_slot, true), "calibration");
        companion = std::make_unique<Companion>(*target, nullptr, layout.has_spares ? settings.n_slots : -1);
        llama_set_embeddings_nextn(target->context(), true, /*masked =*/false);
        positions.assign(static_cast<size_t>(settings.n_slots), 0);
        blobs.resize(static_cast<size_t>(settings.n_slots));
    }

    int32_t n_rs_seq() const { return static_cast<int32_t>(llama_n_rs_seq(target->context())); }

    bool decode_prompt() { return decode(n_prompt) >= 0; }

    // What happens only once: memory for a first saved state.
    bool warm_up() {
        const bool is_saved = mechanism == Mechanism::Rollback || save();
        saves.clear();
        seen.clear();
        return is_saved;
    }

    int64_t state_bytes() const { return state_tensor_bytes(*target, 0); }
    bool    has_device_room() const { return companion->has_device_room(state_bytes() * settings.n_slots); }

    // Fills in the times of a way; leaves those out that there was no time for. False: libllama refused something.
    bool time(TimedWay & way, std::vector<CalibrationResult::Decode> & decodes) {
        const int64_t started = now_ns();
        for (int32_t cycle = 0; cycle < n_cycles && now_ns() - started < time_per_way && now_ns() < deadline; cycle++) {
            if (!(mechanism == Mechanism::Rollback ? roll_back_cycle() : save_cycle())) {
                return false;
            }
            way.n_timed += is_whole ? 1 : 0;
        }
        if (way.n_timed == 0) {
            return true;
        }
        way.save_us    = median_us(saves);
        way.restore_us = median_us(restores);
        way.verify_us  = best_us(verifies);
        way.after_us   = best_us(verifies_after) - way.verify_us;
        way.replay_us  = alone.empty() ? 0 : std::max(0.0, std::min(best_us(alone), best_us(rides) - way.verify_us));
        way.round_us   = round_of(way, settings.n_slots);
        decodes.insert(decodes.end(), seen.begin(), seen.end());
        return true;
    }

private:
    // Decodes n tokens in every slot; nanoseconds, or -1 when libllama refused.
    int64_t decode(int32_t n) {
        check_not_cancelled(settings);
        target->clear();
        for (int32_t slot = 0; slot < settings.n_slots; slot++) {
            for (int32_t i = 0; i < n; i++) {
                int32_t & position = positions[static_cast<size_t>(slot)];
                target->add(slot, (position * 7 + slot) % model.n_vocab(), position, i + n_verify >= n);
                position++;
            }
        }
        const int64_t t_start = compute_ns(is_on_cpu), runs = target->n_graph_runs();
        if (target->decode() != DecodeStatus::Done) {
            return -1;
        }
        const int64_t duration = compute_ns(is_on_cpu) - t_start;
        seen.push_back({mechanism, target->n_graph_runs() - runs, target->size(), duration});
        return duration;
    }

    bool decode_into(std::vector<int64_t> & durations, int32_t n) {
        const int64_t duration = decode(n);
        durations.push_back(duration);
        return duration >= 0;
    }

    bool save() {
        saved = positions;
        for (int32_t slot = 0; slot < settings.n_slots; slot++) {
            const int64_t t_start = now_ns();
            if (mechanism == Mechanism::Cow) {
                companion->share_state(slot);
            } else if (blobs[static_cast<size_t>(slot)] = companion->save_state(slot, place()); blobs[static_cast<size_t>(slot)].empty()) {
                return false;
            }
            saves.push_back(now_ns() - t_start);
        }
        return true;
    }

    bool restore() {
        positions = saved;
        for (int32_t slot = 0; slot < settings.n_slots; slot++) {
            const int64_t t_start  = now_ns();
            const int32_t position = positions[static_cast<size_t>(slot)];
            const bool    ok       = mechanism == Mechanism::Cow ? companion->take_back_state(slot, position)
                                                                 : companion->restore_state(slot, blobs[static_cast<size_t>(slot)], place(), position);
            if (!ok) {
                return false;
            }
            restores.push_back(now_ns() - t_start);
        }
        return true;
    }

    bool drop_tails(int32_t n_dropped) {
        for (int32_t slot = 0; slot < settings.n_slots; slot++) {
            const int64_t t_start = now_ns();
            if (!companion->drop_tail(slot, positions[static_cast<size_t>(slot)] -= n_dropped)) {
                return false;
            }
            restores.push_back(now_ns() - t_start);
        }
        return true;
    }

    // Ends where the last decode ended; is_whole: nothing was left out for want of time.
    bool save_cycle() {
        is_whole = false;
        if (!save() || !decode_into(verifies, n_verify) || !restore()) {
            return false;
        }
        if (now_ns() >= deadline) {
            return true;
        }
        if (!decode_into(verifies_after, n_verify) || !restore() || !decode_into(alone, n_replay) || !restore() ||
            !decode_into(rides, n_replay + n_verify)) {
            return false;
        }
        is_whole = true;
        return true;
    }

    bool roll_back_cycle() {
        const int32_t n_dropped = n_verify - n_replay;
        is_whole                = false;
        if (!decode_into(verifies, n_verify) || !drop_tails(n_dropped)) {
            return false;
        }
        if (now_ns() >= deadline) {
            return true;
        }
        is_whole = decode_into(verifies_after, n_verify) && drop_tails(n_dropped);
        return is_whole;
    }

    Companion::Place place() const { return mechanism == Mechanism::Device ? Companion::Place::Device : Companion::Place::Host; }

    const Model &                                model;
    ContextSettings                              settings;
    Mechanism                                    mechanism;
    int64_t                                      deadline;
    int32_t                                      n_verify, n_replay;    // tokens of a slot
    std::unique_ptr<Decoder>                     target;
    std::unique_ptr<Companion>                   companion;
    std::vector<int32_t>                         positions, saved;
    std::vector<std::vector<uint8_t>>            blobs;
    std::vector<int64_t>                         saves, restores, verifies, verifies_after, alone, rides;
    std::vector<CalibrationResult::Decode>       seen;
    bool                                         is_whole = false;
    const bool                                   is_on_cpu = model.devices() == std::vector<std::string>{"CPU"};
};

std::string mib(int64_t bytes) {
    return std::to_string(bytes / (1 << 20)) + " MiB";
}

// Says so where the states that a way keeps beside the live ones do not fit into the host's memory.
bool refuse_for_room(TimedWay & way, const ContextSettings & settings) {
    const int64_t bytes = way.bytes_per_slot * settings.n_slots;
    if (settings.host_room_bytes < 0 || bytes <= settings.host_room_bytes) {
        return false;
    }
    way.is_available = false;
    way.why = "Its states would take " + mib(bytes) + " beside the live ones, and " + mib(settings.host_room_bytes) + " are free.";
    return true;
}

constexpr const char * too_slow = "Not timed: a decode of this model takes too long for a calibration.";

// Times one way, or says why it cannot be had.
TimedWay try_way(const Model & model, const ContextSettings & settings, Mechanism mechanism, int64_t deadline_ns, CalibrationResult & result) {
    const int32_t n_states = mechanism == Mechanism::Rollback ? settings.n_draft_max : 1;    // of a slot, beside the live one
    TimedWay      way;
    way.mechanism      = mechanism;
    way.bytes_per_slot = settings.state_bytes * n_states;
    if (refuse_for_room(way, settings)) {    // before a context is made: libllama touches all that it allocates
        return way;
    }
    if (mechanism != Mechanism::Rollback && now_ns() >= deadline_ns) {    // what is granted natively, a context has to tell
        way.why = too_slow;
        return way;
    }
    check_not_cancelled(settings);
    if (mechanism == Mechanism::Rollback && settings.state_bytes * (1 + n_states) * settings.n_slots > most_trial_bytes &&
        grants_rollback(model.metadata("general.architecture"))) {
        way.why = "Not timed: clearing its states for a trial would take longer than the calibration may.";
        return way;
    }
    try {
        Trial trial(model, settings, mechanism, deadline_ns);
        if (mechanism == Mechanism::Rollback && trial.n_rs_seq() < settings.n_draft_max) {
            way.is_available = false;
            way.why = "This llama.cpp grants this architecture no native rollback (" + std::to_string(settings.n_draft_max) + " steps asked, " +
                      std::to_string(trial.n_rs_seq()) + " granted).";
            return way;
        }
        if (now_ns() >= deadline_ns) {    // making the context took all the time
            way.why = too_slow;
            return way;
        }
        const bool has_state = trial.decode_prompt();
        way.bytes_per_slot   = trial.state_bytes() * n_states;
        if (refuse_for_room(way, settings)) {
            return way;
        }
        if (mechanism == Mechanism::Device && !trial.has_device_room()) {
            way.is_available = false;
            way.why          = "The device has no room for the states of all slots.";
        } else if (!has_state || !trial.warm_up() || !trial.time(way, result.decodes)) {
            way.is_available = false;
            way.why          = "llama.cpp refused a step of it on this model.";
        } else if (way.n_timed == 0) {
            way.why = too_slow;
        }
    } catch (const EngineError & error) {
        if (error.code == "cancelled") {
            throw;
        }
        way.is_available = false;
        way.why          = error.what();
    }
    return way;
}

void take_best(TimedWay & way, const TimedWay & again, int32_t n_slots) {
    if (again.n_timed > 0) {
        way.verify_us = std::min(way.verify_us, again.verify_us);
        way.replay_us = std::min(way.replay_us, again.replay_us);
        way.n_timed += again.n_timed;
        way.round_us = round_of(way, n_slots);
    }
}

// Where a way seems to beat one that is preferred, both are timed once more: it may have been another program.
void confirm_surprise(const Model & model, const ContextSettings & settings, int64_t deadline_ns, CalibrationResult & result) {
    const auto                   preferred = std::find_if(result.ways.begin(), result.ways.end(), [](const TimedWay & way) { return way.is_available; });
    const std::vector<Mechanism> order     = rank(result.ways);
    if (order.empty() || order.front() == preferred->mechanism || now_ns() >= deadline_ns) {
        return;
    }
    for (TimedWay & way : result.ways) {
        if (way.mechanism == order.front() || way.mechanism == preferred->mechanism) {
            take_best(way, try_way(model, settings, way.mechanism, deadline_ns, result), settings.n_slots);
        }
    }
}

}  // namespace

CalibrationResult calibrate(const Model & model, const ContextSettings & settings) {
    CalibrationResult result;
    const int64_t     t_start = now_ns(), deadline = t_start + calibration_limit_ms * 1'000'000;
    for (const Mechanism mechanism : ways_by_preference) {
        result.ways.push_back(try_way(model, settings, mechanism, deadline, result));
    }
    confirm_surprise(model, settings, deadline, result);
    result.duration_ms = static_cast<double>(now_ns() - t_start) / 1e6;
    return result;
}

}  // namespace draftscope
