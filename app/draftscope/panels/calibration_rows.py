"""The calibration as a table: what each way back costs on this model, which was taken, and why others could not be."""

from __future__ import annotations

from draftscope.base import units
from draftscope.engine.protocol import CheckpointMode, TimedWay, WayBack
from draftscope.panels.figure_table import Column, Row
from draftscope.trace.fallback_words import mechanism_words

COLUMNS = (
    Column("µs", "Medians in microseconds, on the loaded model, with all slots at once."),
    Column("save", "Save the state of one slot."),
    Column("restore", "Put back the state of one slot."),
    Column("verify", "A decode of the sampled token and a whole draft in every slot."),
    Column("after", "What that decode takes longer right after restores of all slots; below 0 is noise."),
    Column(
        "replay", "What decoding half a draft again adds: alone or in front of the next draft, the cheaper of both."
    ),
    Column(
        "a round",
        "All of it, for a round in which every draft is half rejected. Upper ways win where lower ones save little.",
    ),
    Column("a slot", "Bytes beside the live state."),
)


def calibration_rows(way: WayBack) -> list[Row]:
    """A row a way back, in the order of the engine."""
    return [_row(timed) for timed in way.calibration]


def _row(timed: TimedWay) -> Row:
    name, means = timed.mechanism, mechanism_words(timed.mechanism)
    if not timed.is_available:
        return Row(name, remark=f"not available: {timed.why}", means=means)
    if timed.n_timed == 0:
        return Row(name, remark=f"not timed: {timed.why}", means=means, is_marked=timed.is_chosen)
    times = (timed.save_us, timed.restore_us, timed.verify_us, timed.after_us, timed.replay_us, timed.round_us)
    figures = (*(_figure(us) for us in times), units.bytes_text(timed.bytes_per_slot))
    means = f"{means}: timed {timed.n_timed} times. {timed.why}".strip()
    return Row(name, figures, means=means, is_marked=timed.is_chosen)


def _figure(us: float) -> str:
    text = f"{us:,.0f}" if abs(us) >= 1000 else units.figure(us)
    return text.replace("-", "−")


def calibration_note(way: WayBack) -> str:
    """What was chosen, why, and how long the calibration took."""
    if not way.calibration:
        return ""
    took = units.duration(way.calibration_ms * 1e6)
    return f"Taken: {mechanism_words(way.granted)}. {way.why} The calibration took {took}."


def why_not_calibrated(way: WayBack) -> tuple[str, str]:
    """Title and sentence where there is no table."""
    if way.asked is CheckpointMode.AUTO:
        return "There was nothing to choose", f"{way.why} With several ways back, their times would stand here."
    asked = mechanism_words(way.asked.value)
    return (
        "No calibration",
        f"You asked for {asked}. With 'auto' the engine times every way back and takes the cheapest.",
    )
