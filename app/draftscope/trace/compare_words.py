"""A comparison in words: the same texts on the command line, in the window and in files."""

from __future__ import annotations

import math
from pathlib import Path

from draftscope.base import units
from draftscope.trace.compare import Compared, Comparison
from draftscope.trace.compare_figures import Unit
from draftscope.trace.compare_noise import MIN_FACTOR, MIN_PAIRS, Verdict
from draftscope.trace.compare_outputs import Outputs, Parting
from draftscope.trace.trace import Trace


def value_words(value: float, unit: Unit) -> str:
    """A figure with its unit, such as ``412 tok/s`` or ``71.6 %``; a dash where there is none."""
    if math.isnan(value):
        return units.figure(value)
    match unit:
        case Unit.TIME_US:
            return units.duration(value * 1e3)
        case Unit.BYTES:
            return units.bytes_text(value)
        case Unit.SHARE:
            return f"{units.figure(value * 100)} %"
        case Unit.COUNT:
            return f"{value:,.0f}"
        case Unit.RATE:
            return units.rate(value)
        case _:
            return units.figure(value)


def ratio_words(ratio: float) -> str:
    """A ratio with three significant digits or, close to 1, two of what it is away from 1; '' for NaN."""
    if math.isnan(ratio):
        return ""
    away = abs(ratio - 1)
    if 0 < away < 0.005:
        return f"{ratio:.{min(9, 1 - math.floor(math.log10(away)))}f}"
    return units.figure(ratio)


def interval_words(compared: Compared) -> str:
    """What the ratio may be, such as ``0.97..1.04``; '' where nothing tells."""
    low, high = compared.judged.low, compared.judged.high
    if math.isnan(low) or compared.judged.verdict is Verdict.EQUAL:
        return ""
    return f"{ratio_words(low)}..{ratio_words(high)}"


def verdict_words(compared: Compared) -> str:
    """What to make of it, such as ``higher: better``."""
    verdict, better = compared.judged.verdict, compared.figure.better
    if not verdict.is_change or better == 0:
        return verdict.value
    return f"{verdict.value}: {'better' if is_better(compared) else 'worse'}"


def is_better(compared: Compared) -> bool:
    """Whether B is better by more than noise."""
    wanted = {1: Verdict.HIGHER, -1: Verdict.LOWER}
    return compared.judged.verdict is wanted.get(compared.figure.better)


def is_worse(compared: Compared) -> bool:
    """Whether B is worse by more than noise."""
    wanted = {1: Verdict.LOWER, -1: Verdict.HIGHER}
    return compared.judged.verdict is wanted.get(compared.figure.better)


def repeats_words(comparison: Comparison) -> str:
    """What the comparison rests on."""
    n = comparison.n_pairs
    if n >= MIN_PAIRS:
        return f"{n} runs on each side, compared in pairs."
    runs = "One run on each side" if n == 1 else f"{n} runs on each side"
    return (
        f"{runs}: differences of speed and time below {MIN_FACTOR:g} times cannot be told from those between any two "
        f"runs. Record {MIN_PAIRS} of each, in turn, to see smaller ones."
    )


def outputs_words(outputs: Outputs) -> list[str]:
    """Whether the tokens are the same, and where they part."""
    if outputs.why_not:
        return [outputs.why_not]
    lines = [_parting_words(parting) for parting in outputs.partings]
    if not lines:
        tasks = "The output is" if outputs.n_compared == 1 else f"The outputs of all {outputs.n_compared} tasks are"
        lines = [f"{tasks} the same, token for token."] if outputs.n_compared else []
    if outputs.n_only_one:
        tasks = "task is" if outputs.n_only_one == 1 else "tasks are"
        lines.append(f"{outputs.n_only_one} {tasks} in one of the two only.")
    return lines


def _parting_words(parting: Parting) -> str:
    task = f"Slot {parting.slot}" + (f", prompt {parting.prompt}" if parting.prompt >= 0 else "")
    place = f", position {parting.position}" if parting.position >= 0 else ""
    after = f" after {parting.before[-40:]!r}" if parting.before else ""
    a, b = _token(parting.token_a, parting.text_a), _token(parting.token_b, parting.text_b)
    return f"{task}: the outputs part at token {parting.index + 1}{place}{after}: A has {a}, B has {b}."


def _token(token: int | None, text: str) -> str:
    if token is None:
        return "its end"
    return f"{text!r} ({token})" if text else f"token {token}"


def name_words(path: Path | None, trace: Trace) -> str:
    """A run in a line: file, model, way back, slots."""
    model = trace.header.get("model")
    parts = [path.name] if path is not None else []
    if isinstance(model, dict):
        parts.append(Path(str(model.get("path") or model.get("description") or "a model")).name)
        way = model.get("way_back")
        if isinstance(way, dict) and way.get("granted"):
            parts.append(str(way["granted"]).replace("_", " "))
        n_slots = model.get("n_slots")
        if isinstance(n_slots, int):
            parts.append("1 slot" if n_slots == 1 else f"{n_slots} slots")
    return " · ".join(parts)
