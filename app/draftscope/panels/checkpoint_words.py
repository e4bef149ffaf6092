"""What the Checkpoints panel says in words: the way back of each context, and why there is nothing to show. No Qt."""

from __future__ import annotations

import math
from typing import NamedTuple

from draftscope.base import units
from draftscope.engine.events import Kind, Mechanism
from draftscope.engine.protocol import CheckpointMode, ModelReport, WayBack
from draftscope.panels.decades import figure_in
from draftscope.panels.panel import why_no_run
from draftscope.session.shown_run import ShownRun
from draftscope.session.state import SessionState
from draftscope.trace.checkpoints import AfterRestore, CheckpointTable, Timing
from draftscope.trace.fallback_words import mechanism_words

_BRIEFLY = {
    "kv_removal": "drops its tail",
    "cow": "copy on write",
    "device": "device checkpoints",
    "host": "host checkpoints",
}
"""Mechanisms where there is little room."""

DRAFT_MEANS = (
    "The MTP context keeps keys and values only, so it drops its newest tokens by itself (plain KV removal). Nothing of"
    " it is saved."
)


NOTHING_SAVED = "Nothing is rejected then, so no state is saved and none restored."


class Badge(NamedTuple):
    """The way back of a context: what it is called, how it came about, and all of it for the tooltip."""

    context: str
    way: str
    how: str
    means: str
    is_warning: bool = False


def badges(model: ModelReport) -> list[Badge]:
    """One badge a context; a single one when nothing is drafted."""
    way = model.way_back
    if not model.speculation.is_active:
        return [Badge("target", "no way back", "speculation is off", model.speculation.reason)]
    target = Badge("target", briefly(way), _how(way), _target_means(way), _is_second_choice(way))
    return [target, Badge("draft", "drops its tail", "", DRAFT_MEANS)]


def briefly(way: WayBack) -> str:
    """The mechanism granted, with its steps where it has any."""
    if way.granted == "rollback":
        return f"native rollback, {way.n_rs_seq_granted} of {way.n_rs_seq_asked} steps"
    return _BRIEFLY.get(way.granted, mechanism_words(way.granted))


def _is_second_choice(way: WayBack) -> bool:
    is_needless = way.granted == "kv_removal"
    return way.asked not in (CheckpointMode.AUTO, way.granted) and not is_needless


def _how(way: WayBack) -> str:
    if way.asked is CheckpointMode.AUTO:
        return "automatic"
    return f"instead of {mechanism_words(way.asked.value)}" if _is_second_choice(way) else "asked for"


def _target_means(way: WayBack) -> str:
    asked = "the engine's choice" if way.asked is CheckpointMode.AUTO else mechanism_words(way.asked.value)
    lines = [f"Asked for: {asked}.", f"Granted: {mechanism_words(way.granted)}.", way.why]
    if way.n_rs_seq_asked:
        lines.append(f"Rollback steps: {way.n_rs_seq_granted} granted of {way.n_rs_seq_asked} asked for.")
    if way.bytes_per_slot:
        lines.append(f"States beside the live one: {units.bytes_text(way.bytes_per_slot)} a slot.")
    return "\n".join(line for line in lines if line)


def why_no_events(session: ShownRun, table: CheckpointTable) -> tuple[str, str] | None:
    """Title and sentence where there are no times to show, or None where there are."""
    model = session.model
    if model is not None and session.state is not SessionState.LOADING:
        if not model.speculation.is_active:
            return "Nothing is drafted", f"{model.speculation.reason} {NOTHING_SAVED}"
        if model.way_back.granted == "kv_removal" and set(table.mechanisms()) <= {Mechanism.KV_REMOVAL}:
            return "No checkpoints are needed", _plain_removal(table)
    reason = why_no_run(session, "how long states take to save and to restore")
    if reason is not None:
        return reason
    if not table.groups():
        return "Nothing to go back from yet", "A state is saved before a draft is verified, and restored when it fails."
    return None


def _plain_removal(table: CheckpointTable) -> str:
    sentence = (
        "This model keeps keys and values only. After a rejected draft its memory drops the newest tokens by itself"
        " (plain KV removal), so no state is saved and nothing is decoded again."
    )
    timing = table.timing(Kind.RESTORE)
    if timing is None:
        return sentence
    took = f"{units.duration(timing.median_us * 1e3)} in the median of {timing.n:,}"
    return f"{sentence} Dropping a tail took {took}."


def no_saves(model: ModelReport | None, table: CheckpointTable) -> str:
    """Why there are restores but no saves; '' where there are some."""
    if model is None or table.timing(Kind.SAVE) is not None or Mechanism.ROLLBACK not in table.mechanisms():
        return ""
    return "No saves: with native rollback the target keeps its last states by itself and steps back to one of them."


def headline(model: ModelReport, table: CheckpointTable, n_fallbacks: int) -> str:
    """The mechanism and its medians, such as ``cow · save 4.10 µs · restore 15.2 µs``."""
    if not model.speculation.is_active:
        return "speculation is off"
    if model.way_back.granted == "kv_removal":
        return "none needed: plain KV removal"
    parts = [model.way_back.granted]
    for kind, word in ((Kind.SAVE, "save"), (Kind.RESTORE, "restore")):
        timing = table.timing(kind)
        if timing is not None:
            parts.append(f"{word} {units.duration(timing.median_us * 1e3)}")
    if n_fallbacks:
        parts.append("1 fallback" if n_fallbacks == 1 else f"{n_fallbacks:,} fallbacks")
    return " · ".join(parts)


def timing_words(timing: Timing | None) -> str:
    """Median and 99th percentile, both in the unit of the median."""
    if timing is None:
        return "–"
    unit = units.time_unit(timing.median_us * 1e3)
    return f"<b>{figure_in(timing.median_us, unit)}</b> · p99 {figure_in(timing.p99_us, unit)} {unit[0]}"


def after_words(compared: AfterRestore | None) -> str:
    """What the decodes after a restore pay; '' where it cannot be told."""
    if compared is None or math.isnan(compared.paid_us):
        return ""
    sign = "+" if compared.paid_us > 0 else "−" if compared.paid_us < 0 else ""
    return f"decodes after it <b>{sign}{units.duration(abs(compared.paid_us) * 1e3)}</b>"
