#include "target_context.h"

#include "calibration.h"
#include "companion.h"
#include "error.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

namespace draftscope {

llama_context_params target_params(const ContextSettings & settings, const Layout & layout, int32_t n_ctx_slot, bool is_drafting) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx                = static_cast<uint32_t>(n_ctx_slot * settings.n_slots);
    params.n_seq_max            = static_cast<uint32_t>(layout.has_spares ? 2 * settings.n_slots : settings.n_slots);
    params.kv_unified           = layout.has_spares;    // libllama copies a part of a sequence within one buffer only
    params.n_batch = params.n_ubatch = static_cast<uint32_t>(settings.n_batch);
    params.n_outputs_max             = static_cast<uint32_t>(settings.n_slots * (1 + settings.n_draft_max));
    params.n_threads = params.n_threads_batch = settings.n_threads;
    params.n_rs_seq                           = static_cast<uint32_t>(layout.n_rs_seq);
    params.swa_full                           = is_drafting;    // a window that forgets cannot give back what a rollback needs
    return params;
}

namespace {

std::string steps(int32_t n) {
    return std::to_string(n) + (n == 1 ? " step" : " steps");
}

std::string milliseconds(double us) {
    std::ostringstream out;
    out << std::setprecision(3) << us / 1e3 << " ms";
    return out.str();
}

const char * words_of(Mechanism mechanism) {
    switch (mechanism) {
        case Mechanism::Rollback: return "the model's recurrent memory steps back by itself";
        case Mechanism::Cow: return "a spare sequence shares the recurrent state until one of the two is decoded";
        case Mechanism::Device: return "recurrent states are saved in the memory of the device they are on";
        default: return "recurrent states are saved in host memory";
    }
}

class Maker {
public:
    Maker(const Model & model_, const ContextSettings & settings_, bool is_drafting_)
        : model(model_), settings(settings_), is_drafting(is_drafting_) {
        made.way_back.asked = settings.checkpoint;
    }

    TargetContext make() {
        if (is_drafting && model.is_recurrent()) {
            made.way_back.n_rs_seq_asked = is_open() ? settings.n_draft_max : 0;
            if (settings.checkpoint != CheckpointMode::Rollback || !grant_asked_rollback()) {
                grant_first_of(is_open() ? measured_order() : rank_asked(settings.checkpoint));
            }
        } else {
            make_plain();
        }
        if (made.decoder->memory() == nullptr) {
            throw EngineError("unsupported_model", "This model (" + model.metadata("general.architecture") +
                                                       ") keeps no memory of its tokens, so it cannot generate text.");
        }
        return std::move(made);
    }

private:
    bool is_open() const { return settings.checkpoint == CheckpointMode::Auto || settings.checkpoint == CheckpointMode::Rollback; }

    void make_decoder(Mechanism mechanism) {
        made.decoder.reset();
        made.layout = layout_of(mechanism, settings.n_draft_max);
        // Room behind the slot's last token for a draft, so that all slots always draft alike.
        const int32_t n_ctx_slot = (settings.n_ctx + settings.n_draft_max + 1 + 255) / 256 * 256;
        made.decoder = std::make_unique<Decoder>(model.get(), target_params(settings, made.layout, n_ctx_slot, is_drafting), "target");
    }

    void make_plain() {
        make_decoder(Mechanism::None);
        WayBack & way = made.way_back;
        if (!is_drafting) {
            way.why = "Nothing is drafted, so nothing is rolled back.";
        } else if (Companion::can_drop_tail(*made.decoder)) {
            way.granted = Mechanism::KvRemoval;
            way.why     = "The model's memory can drop its newest tokens, so no checkpoints are needed.";
        } else {
            way.granted = Mechanism::Host;
            way.why     = "The model's memory cannot drop its newest tokens, so its states are saved in host memory.";
        }
    }

    bool grant_asked_rollback() {
        make_decoder(Mechanism::Rollback);
        if (!take_over_steps()) {
            refusals = "This llama.cpp grants this architecture no native rollback (" + steps(made.way_back.n_rs_seq_asked) + " asked, " +
                       std::to_string(made.way_back.n_rs_seq_granted) + " granted). ";
            return false;
        }
        made.way_back.granted = Mechanism::Rollback;
        made.way_back.why     = "Asked for: the model's recurrent memory steps back by itself, up to " + steps(made.way_back.n_rs_seq_granted) + ".";
        return true;
    }

    bool take_over_steps() {
        made.way_back.n_rs_seq_granted = static_cast<int32_t>(llama_n_rs_seq(made.decoder->context()));
        return made.way_back.n_rs_seq_granted >= settings.n_draft_max;
    }

    std::vector<Mechanism> measured_order() {
        made.decoder.reset();
        CalibrationResult result    = calibrate(model, settings);
        made.way_back.calibration    = std::move(result.ways);
        made.way_back.calibration_ms = result.duration_ms;
        decodes                      = std::move(result.decodes);
        std::vector<Mechanism> order = rank(made.way_back.calibration);
        if (order.empty()) {
            refusals = "No way back passed the measurement. ";
            order    = {Mechanism::Host};    // a save that finds no memory costs its draft, and nothing else
        }
        return order;
    }

    void grant_first_of(const std::vector<Mechanism> & order) {
        for (const Mechanism mechanism : order) {
            try {
                make_decoder(mechanism);
            } catch (const EngineError &) {
                if (mechanism == order.back()) {
                    throw;
                }
                refusals += std::string("llama.cpp could not make a context for ") + name_of(mechanism) + ". ";
                continue;
            }
            grant(mechanism);
            return;
        }
    }

    void grant(Mechanism mechanism) {
        WayBack & way = made.way_back;
        way.granted   = mechanism;
        if (mechanism == Mechanism::Rollback) {
            take_over_steps();
        }
        const TimedWay * chosen = nullptr;
        for (TimedWay & timed : way.calibration) {
            timed.is_chosen = timed.mechanism == mechanism;
            chosen          = timed.is_chosen ? &timed : chosen;
        }
        for (const CalibrationResult::Decode & decode : decodes) {
            if (decode.mechanism == mechanism) {
                made.costs.learn_decode(decode.n_graphs, decode.n_tokens, decode.duration_ns);
            }
        }
        const std::string reason = !is_open() ? "Asked for" : chosen == nullptr ? "First in the order of preference" : measured(*chosen);
        way.why = refusals + (refusals.empty() || is_open() ? reason : "Next best") + ": " + words_of(mechanism) +
                  (mechanism == Mechanism::Rollback ? ", up to " + steps(way.n_rs_seq_granted) : "") + ".";
    }

    // What the calibration says for a way.
    std::string measured(const TimedWay & chosen) const {
        if (chosen.round_us == 0) {
            return "First in the order of preference";
        }
        const std::vector<TimedWay> & all = made.way_back.calibration;
        const bool is_cheapest = std::all_of(all.begin(), all.end(), [&](const TimedWay & way) { return way.round_us == 0 || way.round_us >= chosen.round_us; });
        return is_cheapest ? "Cheapest by measurement, " + milliseconds(chosen.round_us) + " a round"
                           : milliseconds(chosen.round_us) + " a round by measurement, and no other way is clearly cheaper";
    }

    const Model &                          model;
    const ContextSettings &                settings;
    bool                                   is_drafting;
    TargetContext                          made;
    std::string                            refusals;
    std::vector<CalibrationResult::Decode> decodes;
};

}  // namespace

TargetContext make_target(const Model & model, const ContextSettings & settings, bool is_drafting) {
    return Maker(model, settings, is_drafting).make();
}

}  // namespace draftscope
