// Engine as a Python class. The interpreter lock is released around everything that computes.
#include "engine.h"
#include "register.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <initializer_list>
#include <utility>

namespace nb = nanobind;
using namespace nb::literals;

namespace draftscope::bind {

namespace {

// Holds the buffer that the ring lives in for as long as the engine.
class BufferView {
public:
    explicit BufferView(nb::handle object) {
        if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_WRITABLE | PyBUF_SIMPLE) != 0) {
            throw nb::python_error();
        }
    }
    ~BufferView() { PyBuffer_Release(&view); }
    BufferView(const BufferView &)             = delete;
    BufferView & operator=(const BufferView &) = delete;
    Py_buffer view{};
};

struct PyEngine {
    explicit PyEngine(nb::handle memory) : buffer(memory), engine(buffer.view.buf, static_cast<size_t>(buffer.view.len)) {}
    BufferView buffer;
    Engine     engine;
};

nb::bytes as_bytes(const std::string & text) {
    return nb::bytes(text.data(), text.size());
}

nb::dict fields(std::initializer_list<std::pair<const char *, nb::object>> entries) {
    nb::dict dict;
    for (const auto & [name, value] : entries) {
        dict[name] = value;
    }
    return dict;
}

nb::dict as_dict(const TimedWay & way) {
    return fields({{"mechanism", nb::cast(static_cast<int>(way.mechanism))},
                   {"is_available", nb::cast(way.is_available)},
                   {"is_chosen", nb::cast(way.is_chosen)},
                   {"n_timed", nb::cast(way.n_timed)},
                   {"save_us", nb::cast(way.save_us)},
                   {"restore_us", nb::cast(way.restore_us)},
                   {"verify_us", nb::cast(way.verify_us)},
                   {"after_us", nb::cast(way.after_us)},
                   {"replay_us", nb::cast(way.replay_us)},
                   {"round_us", nb::cast(way.round_us)},
                   {"bytes_per_slot", nb::cast(way.bytes_per_slot)},
                   {"why", nb::cast(way.why)}});
}

nb::dict as_dict(const WayBack & way) {
    nb::list rows;
    for (const TimedWay & timed : way.calibration) {
        rows.append(as_dict(timed));
    }
    return fields({{"asked", nb::cast(static_cast<int>(way.asked))},
                   {"granted", nb::cast(static_cast<int>(way.granted))},
                   {"n_rs_seq_asked", nb::cast(way.n_rs_seq_asked)},
                   {"n_rs_seq_granted", nb::cast(way.n_rs_seq_granted)},
                   {"why", nb::cast(way.why)},
                   {"bytes_per_slot", nb::cast(way.bytes_per_slot)},
                   {"calibration", rows},
                   {"calibration_ms", nb::cast(way.calibration_ms)}});
}

nb::dict as_dict(const Speculation & s) {
    return fields({{"is_active", nb::cast(s.is_active)},
                   {"family", nb::cast(static_cast<int>(s.family))},
                   {"n_layer_nextn", nb::cast(s.n_layer_nextn)},
                   {"n_draft_max", nb::cast(s.n_draft_max)},
                   {"reason", nb::cast(s.reason)}});
}

nb::dict as_dict(const ModelReport & r) {
    return fields({{"architecture", nb::cast(r.architecture)},
                   {"size_bytes", nb::cast(r.size_bytes)},
                   {"n_params", nb::cast(r.n_params)},
                   {"n_layer", nb::cast(r.n_layer)},
                   {"n_embd", nb::cast(r.n_embd)},
                   {"n_vocab", nb::cast(r.n_vocab)},
                   {"n_ctx_train", nb::cast(r.n_ctx_train)},
                   {"has_tokenizer", nb::cast(r.has_tokenizer)},
                   {"has_chat_template", nb::cast(r.has_chat_template)},
                   {"is_recurrent", nb::cast(r.is_recurrent)},
                   {"n_slots_asked", nb::cast(r.n_slots_asked)},
                   {"n_slots", nb::cast(r.n_slots)},
                   {"n_ctx", nb::cast(r.n_ctx)},
                   {"n_threads", nb::cast(r.n_threads)},
                   {"devices", nb::cast(r.devices)},
                   {"speculation", nb::cast(as_dict(r.speculation))},
                   {"way_back", nb::cast(as_dict(r.way_back))},
                   {"why_not_shift", nb::cast(r.why_not_shift)},
                   {"engine", nb::cast(r.engine)},
                   {"is_patched", nb::cast(r.is_patched)}});
}

nb::dict as_dict(const SlotResult & r) {
    return fields({{"slot", nb::cast(r.slot)},
                   {"text", nb::cast(as_bytes(r.text))},
                   {"tokens", nb::cast(r.tokens)},
                   {"n_prompt", nb::cast(r.n_prompt)},
                   {"n_reused", nb::cast(r.n_reused)},
                   {"reuse", nb::cast(static_cast<int>(r.reuse))},
                   {"n_rounds", nb::cast(r.n_rounds)},
                   {"draft_n", nb::cast(r.draft_n)},
                   {"draft_n_accepted", nb::cast(r.draft_n_accepted)},
                   {"accepted_at", nb::cast(r.accepted_at)},
                   {"drafted_at", nb::cast(r.drafted_at)},
                   {"ttft_ms", nb::cast(r.ttft_ms)},
                   {"prompt_ms", nb::cast(r.prompt_ms)},
                   {"generate_ms", nb::cast(r.generate_ms)},
                   {"stop", nb::cast(static_cast<int>(r.stop))},
                   {"error", nb::cast(r.error)}});
}

nb::dict as_dict(const Counts & c) {
    return fields({{"rounds", nb::cast(c.target.rounds)},
                   {"target", nb::cast(c.target.target)},
                   {"replay", nb::cast(c.target.replay)},
                   {"rides", nb::cast(c.target.rides)},
                   {"draft", nb::cast(c.draft.draft)},
                   {"catch_up", nb::cast(c.draft.catch_up)},
                   {"target_graph_runs", nb::cast(c.target.target_graph_runs)},
                   {"draft_graph_runs", nb::cast(c.draft.draft_graph_runs)},
                   {"prompt", nb::cast(c.target.prompt + c.draft.prompt)},
                   {"prompt_graph_runs", nb::cast(c.target.prompt_graph_runs + c.draft.prompt_graph_runs)},
                   {"n_decodes_measured", nb::cast(c.costs.is_known() ? c.costs.n_decodes() : 0)},
                   {"graph_us", nb::cast(c.costs.graph_ns() / 1e3)},
                   {"token_us", nb::cast(c.costs.token_ns() / 1e3)},
                   {"n_saves", nb::cast(c.n_saves)},
                   {"n_restores", nb::cast(c.n_restores)},
                   {"n_fallbacks", nb::cast(c.n_fallbacks)},
                   {"n_prompt_saves", nb::cast(c.n_prompt_saves)},
                   {"n_prompt_restores", nb::cast(c.n_prompt_restores)},
                   {"n_cache_hits", nb::cast(c.n_cache_hits)},
                   {"n_refused_states", nb::cast(c.n_refused_states)}});
}

Model::Progress asking(const nb::object & progress) {
    return [&progress](float fraction) {
        nb::gil_scoped_acquire gil;
        return nb::cast<bool>(progress(fraction));
    };
}

nb::dict load(PyEngine & self, const std::string & path, int n_gpu_layers, const std::vector<std::string> & devices, bool use_mmap,
              const std::vector<std::string> & rpc_endpoints, const std::string & mtp_obstacle, nb::object progress) {
    const ModelSettings settings{path, n_gpu_layers, devices, use_mmap, rpc_endpoints, mtp_obstacle};
    ModelReport         report;
    {
        nb::gil_scoped_release release;
        report = self.engine.load(settings, asking(progress));
    }
    return as_dict(report);
}

void load_assistant(PyEngine & self, const std::string & path, int n_gpu_layers, const std::vector<std::string> & devices, bool use_mmap,
                    const std::vector<std::string> & rpc_endpoints, nb::object progress) {
    const ModelSettings settings{path, n_gpu_layers, devices, use_mmap, rpc_endpoints, ""};
    nb::gil_scoped_release release;
    self.engine.load_assistant(settings, asking(progress));
}

nb::dict configure(PyEngine & self, int n_slots, int n_ctx, int n_draft_max, bool use_mtp, int checkpoint, int n_threads, int n_batch,
                   bool catch_up_alone, int replay, int64_t host_room_bytes, int64_t state_bytes, int64_t prompt_checkpoints_bytes,
                   int prompt_checkpoint_spacing, int64_t prompt_cache_bytes, bool use_hooks, bool shift, nb::object keep_going) {
    const auto ask = [&keep_going] {
        nb::gil_scoped_acquire gil;
        return nb::cast<bool>(keep_going());
    };
    const ContextSettings settings{n_slots, n_ctx, n_draft_max, use_mtp, static_cast<CheckpointMode>(checkpoint), n_threads, n_batch, catch_up_alone,
                                   static_cast<ReplayPolicy>(replay), host_room_bytes, state_bytes, prompt_checkpoints_bytes,
                                   prompt_checkpoint_spacing, prompt_cache_bytes, use_hooks, shift, ask};
    ModelReport           report;
    {
        nb::gil_scoped_release release;
        report = self.engine.configure(settings);
    }
    return as_dict(report);
}

void submit(PyEngine & self, int slot, std::vector<int32_t> prompt, float temperature, int top_k, float top_p, float min_p, float repeat_penalty,
            int repeat_last_n, float presence_penalty, uint32_t seed, int max_tokens, std::vector<std::string> stop, bool ignore_eos, bool reuse,
            bool is_continuation, std::string grammar) {
    Task task{slot, std::move(prompt), {temperature, top_k, top_p, min_p, repeat_penalty, repeat_last_n, presence_penalty, seed}, max_tokens,
              std::move(stop), ignore_eos, reuse, is_continuation, std::move(grammar)};
    nb::gil_scoped_release release;
    self.engine.submit(std::move(task));
}

nb::bytes as_bytes(const std::vector<uint8_t> & bytes) {
    return nb::bytes(bytes.data(), bytes.size());
}

std::vector<uint8_t> as_vector(const nb::bytes & bytes) {
    const auto * first = static_cast<const uint8_t *>(bytes.data());
    return {first, first + bytes.size()};
}

nb::dict as_dict(const SlotFacts & f) {
    return fields({{"n_tokens", nb::cast(f.n_tokens)},
                   {"n_decoded", nb::cast(f.n_decoded)},
                   {"n_draft", nb::cast(f.n_draft)},
                   {"n_waiting", nb::cast(f.n_waiting)},
                   {"n_prompt_checkpoints", nb::cast(f.n_prompt_checkpoints)},
                   {"prompt_checkpoint_bytes", nb::cast(f.prompt_checkpoint_bytes)}});
}

// What can be done to a slot between two tasks.
void register_slot_operations(nb::class_<PyEngine> & engine) {
    using Guard = nb::call_guard<nb::gil_scoped_release>;
    engine.def("slot_facts", [](PyEngine & self, int slot) { return as_dict(self.engine.slot_facts(slot)); }, "slot"_a)
        .def("slot_tokens", [](PyEngine & self, int slot) { return self.engine.slot_tokens(slot); }, "slot"_a)
        .def("clear_slot", [](PyEngine & self, int slot) { self.engine.clear_slot(slot); }, "slot"_a, Guard())
        .def("rewind_slot", [](PyEngine & self, int slot, int n_tokens) { self.engine.rewind_slot(slot, n_tokens); }, "slot"_a, "n_tokens"_a, Guard())
        .def("fork_slot", [](PyEngine & self, int slot, int to) { self.engine.fork_slot(slot, to); }, "slot"_a, "to"_a, Guard())
        .def("shift_slot", [](PyEngine & self, int slot, int n_keep, int n_discard) { self.engine.shift_slot(slot, n_keep, n_discard); }, "slot"_a,
             "n_keep"_a, "n_discard"_a, Guard())
        .def("save_slot", [](PyEngine & self, int slot) {
            std::vector<uint8_t> state;
            {
                nb::gil_scoped_release release;
                state = self.engine.save_slot(slot);
            }
            return as_bytes(state);
        }, "slot"_a)
        .def("restore_slot", [](PyEngine & self, int slot, const nb::bytes & bytes) {
            const std::vector<uint8_t> state = as_vector(bytes);
            nb::gil_scoped_release     release;
            self.engine.restore_slot(slot, state);
        }, "slot"_a, "state"_a)
        .def("get_state", [](PyEngine & self, int slot) { return as_bytes(self.engine.get_state(slot)); }, "slot"_a,
             "Hidden rows that drafting goes on from; see core/mtp_state.h.")
        .def("set_state", [](PyEngine & self, int slot, const nb::bytes & state) { self.engine.set_state(slot, as_vector(state)); }, "slot"_a, "state"_a)
        .def("find_broken", [](PyEngine & self) { return self.engine.find_broken(); }, "What is wrong in any slot, as a sentence; for tests.");
}

}  // namespace

void register_engine(nb::module_ & m) {
    nb::class_<PyEngine> engine(m, "Engine", "One engine; see core/engine.h. All calls from one thread, except cancel().");
    register_slot_operations(engine);
    engine
        .def(nb::init<nb::handle>(), "memory"_a, "memory: writable buffer with an initialised ring")
        .def("load", &load, "path"_a, nb::kw_only(), "n_gpu_layers"_a, "devices"_a, "use_mmap"_a, "rpc_endpoints"_a,
             "mtp_obstacle"_a, "progress"_a)
        .def("load_assistant", &load_assistant, "path"_a, nb::kw_only(), "n_gpu_layers"_a, "devices"_a, "use_mmap"_a, "rpc_endpoints"_a,
             "progress"_a, "The second file that drafts for the loaded model; configure() makes use of it.")
        .def("configure", &configure, nb::kw_only(), "n_slots"_a, "n_ctx"_a, "n_draft_max"_a, "use_mtp"_a, "checkpoint"_a, "n_threads"_a,
             "n_batch"_a, "catch_up_alone"_a, "replay"_a, "host_room_bytes"_a, "state_bytes"_a, "prompt_checkpoints_bytes"_a,
             "prompt_checkpoint_spacing"_a, "prompt_cache_bytes"_a, "use_hooks"_a, "shift"_a, "keep_going"_a)
        .def("unload", [](PyEngine & self) { self.engine.unload(); }, nb::call_guard<nb::gil_scoped_release>())
        .def("chat_template", [](PyEngine & self) {
            const ChatTemplate t = self.engine.chat_template();
            return nb::make_tuple(as_bytes(t.source), as_bytes(t.bos), as_bytes(t.eos));
        })
        .def("tokenize", [](PyEngine & self, nb::bytes text, bool add_special, bool parse_special) {
            return self.engine.tokenize(std::string(text.c_str(), text.size()), add_special, parse_special);
        }, "text"_a, nb::kw_only(), "add_special"_a, "parse_special"_a)
        .def("piece", [](PyEngine & self, int token) { return as_bytes(self.engine.piece(token)); }, "token"_a)
        .def("submit", &submit, nb::kw_only(), "slot"_a, "prompt"_a, "temperature"_a, "top_k"_a, "top_p"_a, "min_p"_a, "repeat_penalty"_a,
             "repeat_last_n"_a, "presence_penalty"_a, "seed"_a, "max_tokens"_a, "stop"_a, "ignore_eos"_a, "reuse"_a, "is_continuation"_a,
             "grammar"_a = "")
        .def("step", [](PyEngine & self) { return self.engine.step(); }, nb::call_guard<nb::gil_scoped_release>())
        .def("set_probe", [](PyEngine & self, uint8_t level, const std::vector<int32_t> & slots) {
            self.engine.set_probe(static_cast<ProbeLevel>(level), slots);
        }, "level"_a, "slots"_a)
        .def("inject_fault", [](PyEngine & self, uint8_t fault, const std::vector<int32_t> & slots, int layer) {
            self.engine.inject_fault(static_cast<RestoreFault>(fault), slots, layer);
        }, "fault"_a, "slots"_a, "layer"_a)
        .def("cancel", [](PyEngine & self, int slot) { self.engine.cancel(slot); }, "slot"_a)
        .def("take_results", [](PyEngine & self) {
            nb::list results;
            for (const SlotResult & result : self.engine.take_results()) {
                results.append(as_dict(result));
            }
            return results;
        })
        .def("take_new_tokens", [](PyEngine & self) { return self.engine.take_new_tokens(); }, "Ids recorded for the first time since the last call.")
        .def("counts", [](PyEngine & self) { return as_dict(self.engine.counts()); })
        .def("memory", [](PyEngine & self) {
            nb::list kinds;
            for (const MemoryUse & use : self.engine.memory()) {
                kinds.append(nb::make_tuple(use.kind, use.host_bytes, use.device_bytes));
            }
            return kinds;
        }, "(kind, host bytes, device bytes) of all slots together.")
        .def("inject_faults", [](PyEngine & self, int save, int restore, int drop_tail, int device_room, int lost, int cancel) {
            self.engine.inject({save, restore, drop_tail, device_room, lost, cancel});
        }, nb::kw_only(), "save"_a = 0, "restore"_a = 0, "drop_tail"_a = 0, "device_room"_a = 0, "lost"_a = 0, "cancel"_a = 0,
             "Let the next so many of each fail; for tests.")
        .def("logits_of", [](PyEngine & self, int slot, const std::vector<int32_t> & tokens, const std::vector<int32_t> & chunks) {
            return self.engine.logits_of(slot, tokens, chunks);
        }, "slot"_a, "tokens"_a, "chunks"_a, "Logits after the tokens, decoded alone in a free slot; for tests.")
        .def("logits_after_restore", [](PyEngine & self, int slot, const std::vector<int32_t> & tokens, int n_saved) {
            auto [before, after] = self.engine.logits_after_restore(slot, tokens, n_saved);
            return nb::make_tuple(before, after);
        }, "slot"_a, "tokens"_a, "n_saved"_a, "Last logits before and after going back in a free slot; for tests.")
        .def("logits_after_drops", [](PyEngine & self, int slot, const std::vector<int32_t> & tokens,
                                      const std::vector<Engine::DropStep> & steps) {
            auto [granted, logits] = self.engine.logits_after_drops(slot, tokens, steps);
            return nb::make_tuple(granted, logits);
        }, "slot"_a, "tokens"_a, "steps"_a, "(which drops were granted, last logits after them) in free slots; for tests.");
}

}  // namespace draftscope::bind
