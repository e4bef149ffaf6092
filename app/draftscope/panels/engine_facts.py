"""What the Engine panel tells, in sections: what was loaded and granted, what was counted, what the tool costs."""

from __future__ import annotations

from pathlib import Path

from draftscope.base import units
from draftscope.engine.protocol import CheckpointMode, EngineDied, ModelReport, RunReport, Speculation
from draftscope.panels.fact_list import Fact, Section
from draftscope.session.death import describe_death
from draftscope.session.meter import Meter
from draftscope.trace.fallback_words import mechanism_words

N_TAIL_LINES = 4
"""Lines of the log shown with the end of an engine."""


def death_section(death: EngineDied, *, is_back: bool) -> Section:
    """How the engine process ended; ``is_back``: another one has taken its place."""
    report = describe_death(death)
    facts = [Fact("What happened", report.message, tone="bad"), Fact("What is left", report.hint)]
    if death.log_tail:
        facts.append(Fact("Last log lines", "\n".join(death.log_tail[-N_TAIL_LINES:])))
    return Section("The engine ended and was started again" if is_back else "The engine has stopped", tuple(facts))


def saved_section(facts: tuple[tuple[str, str], ...]) -> Section:
    """The file that a saved run is from."""
    rows = (Fact(name, value, tone="warn" if name == "Is missing" else "") for name, value in facts)
    return Section("Saved trace", tuple(rows))


def model_section(model: ModelReport) -> Section:
    """What is loaded."""
    return Section(
        "Model",
        (
            Fact("File", Path(model.path).name, model.path),
            # llama.cpp writes "?B" where it has no name for the size; the parameters are told below.
            Fact("Kind", model.description, f"Architecture {model.architecture}"),
            Fact("Size", f"{units.bytes_text(model.size_bytes)}, {model.n_params:,} parameters"),
            Fact(
                "Shape", f"{model.n_layer} layers of width {model.n_embd}, {model.n_vocab:,} tokens in the vocabulary"
            ),
            Fact(
                "State",
                "recurrent, beside a KV cache" if model.is_recurrent else "KV cache only",
                "Recurrent state cannot simply be cut back, so a rejected draft needs a way back.",
            ),
            Fact("Loaded in", units.duration(round(model.load_ms * 1e6))),
        ),
    )


def context_section(model: ModelReport) -> Section:
    """What was asked for and granted when the contexts were made."""
    slots = f"{model.n_slots}"
    if model.n_slots != model.n_slots_asked:
        slots = f"{model.n_slots} granted of {model.n_slots_asked} asked for"
    build = "with this program's patches" if model.is_patched else "unpatched: fewer ways back"
    return Section(
        "Contexts",
        (
            Fact("Slots", slots, "Conversations that run in parallel.", "warn" if "granted" in slots else ""),
            Fact(
                "Context",
                f"{model.n_ctx:,} tokens a slot (trained on {model.n_ctx_train:,})",
                "Texts longer than the model was trained on may lose their sense.",
                "warn" if model.n_ctx > model.n_ctx_train > 0 else "",
            ),
            Fact(
                "A full slot",
                "forgets its older half and goes on" if model.shifts else "ends its task",
                model.why_not_shift or "Context shift is switched on in the open dialog.",
            ),
            Fact("Threads", f"{model.n_threads}"),
            Fact("Devices", ", ".join(model.devices) or "CPU"),
            Fact("Engine", f"{model.engine}, {build}"),
        ),
    )


def speculation_section(model: ModelReport) -> Section:
    """Whether drafts are made, and the way back after a rejected one."""
    speculation, back = model.speculation, model.way_back
    if not speculation.is_active:
        return Section("Speculation", (Fact("Drafts", f"off: {speculation.reason}", tone="warn"),))
    facts = [
        Fact("Drafts", f"on: up to {_tokens(speculation.n_draft_max)} a round from {_heads(speculation)}"),
        Fact("Way back asked for", _asked(back.asked), "How the target returns to the last accepted token."),
        Fact("Way back in use", mechanism_words(back.granted), back.why),
        Fact("Why", back.why or "as asked for"),
    ]
    if speculation.reason:
        facts.insert(1, Fact("Draft length", speculation.reason, "Shorter than asked for.", "warn"))
    if back.n_rs_seq_asked:
        steps = f"{back.n_rs_seq_granted} granted of {back.n_rs_seq_asked} asked for"
        is_short = back.n_rs_seq_granted < back.n_rs_seq_asked
        means = "Earlier recurrent states that the target keeps for each slot."
        facts.append(Fact("Rollback steps", steps, means, "warn" if is_short else ""))
    if back.bytes_per_slot:
        facts.append(
            Fact("State a slot", units.bytes_text(back.bytes_per_slot), "Memory that the way back takes in each slot.")
        )
    return Section("Speculation", tuple(facts))


def _tokens(n: int) -> str:
    return "1 token" if n == 1 else f"{n} tokens"


def _heads(speculation: Speculation) -> str:
    n = speculation.n_layer_nextn
    if speculation.family == "assistant":
        return f"an assistant of {n} layers, which reads the target's keys and values"
    if speculation.family == "chained_heads":
        return f"{n} chained MTP heads, one for each draft step"
    return "1 MTP layer" if n == 1 else f"{n} MTP layers"


def _asked(mode: CheckpointMode) -> str:
    return "automatic" if mode == CheckpointMode.AUTO else mechanism_words(mode.value)


def run_section(report: RunReport, *, is_final: bool) -> Section:
    """Counts of the run: the engine's own when it has ended, else those of the records so far."""
    counts = report.decodes
    rounds = max(counts.rounds, 1)
    means = "Counted by the engine." if is_final else "Counted from the records so far."
    return Section(
        "This run",
        (
            Fact("Rounds", f"{counts.rounds:,}", means),
            Fact(
                "Target decodes",
                _decodes(counts.target, counts.replay, "replays alone", rounds),
                "One verifies all slots in each round; a replay of its own comes on top. " + means,
            ),
            Fact(
                "Replays",
                f"{counts.rides:,} rode with a verification, {counts.replay:,} alone",
                "Rounds in which tokens were decoded again after a restore: in front of the next draft, or in a decode"
                " of their own. " + means,
            ),
            Fact(
                "Draft decodes",
                _decodes(counts.draft, counts.catch_up, "catch-ups alone", rounds),
                "One for each draft position, over all slots. " + means,
            ),
            Fact(
                "Graph runs a round",
                f"target {units.figure(counts.target_graph_runs / rounds)},"
                f" draft {units.figure(counts.draft_graph_runs / rounds)}",
                "Compute graphs that were run; a decode of uneven slots can need several. " + means,
            ),
            Fact("Saves, restores", f"{report.n_saves:,}, {report.n_restores:,}", means),
            Fact(
                "Fallbacks",
                f"{report.n_fallbacks:,}",
                "Times that another way back was taken, or a slot was prefilled again. " + means,
                "warn" if report.n_fallbacks else "",
            ),
        ),
    )


def _decodes(n: int, n_alone: int, what: str, rounds: int) -> str:
    alone = f", {n_alone:,} of them {what}" if n_alone else ""
    return f"{n:,} ({units.figure(n / rounds)} a round){alone}"


def meter_section(meter: Meter, titles: dict[str, str]) -> Section:
    """What the window itself costs; ``titles`` names the panels by id."""
    draws = meter.draw_ms
    drawn = (f"{titles.get(panel, panel)} {draws[panel]:.1f} ms" for panel in sorted(draws) if draws[panel] >= 0.05)
    return Section(
        "This tool",
        (
            Fact("Records", f"{meter.n_records:,}, {meter.records_per_s:,.0f} in the last second"),
            Fact(
                "Dropped records",
                f"{meter.n_dropped:,}",
                "Records that the engine could not hand over because the window was too slow.",
                "bad" if meter.n_dropped else "",
            ),
            Fact("Receiving", f"{meter.receive_ms:.2f} ms a frame", "Mean over the last second."),
            Fact("Drawing", ", ".join(drawn) or "at rest", "Time a frame, by panel; mean over the last second."),
            Fact(
                "Share of the time",
                f"{meter.overhead * 100:.1f} %",
                "Part of the last second that the window spent receiving and drawing.",
            ),
        ),
    )
