"""A bench as tables, for a person: speeds and ratios by number of slots, then memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from draftscope.base.units import duration, figure
from draftscope.cli.bench_edit_table import EXPLAINED as EDIT_EXPLAINED
from draftscope.cli.bench_edit_table import edit_tables
from draftscope.cli.memory_growth import growth_as_text
from draftscope.cli.terminal import figure_or_dash, percent_or_dash, table

_MOST_COLUMNS = 12
"""Of ratios among each other; with more variants they are in the JSON only."""

Variants = Sequence[Mapping[str, Any]]

_HEADER = (
    *("", "tok/s", "best", "spread", "ratio", "spread", "accepted", "length"),
    *("target", "draft", "graphs", "save", "restore", "tokens"),
)

_EXPLAINED = """\
tok/s: of all slots, median, prompts excluded. ratio: to the first line, median of the ratios of runs side by side.
target, draft, graphs: decodes of each context and graph runs a round. tokens: same as the first line's, or not."""


def as_text(summary: Mapping[str, Any]) -> str:
    """The object of ``bench --json`` as text."""
    parts = ["\n".join(_headline(summary))]
    for n_slots in dict.fromkeys(variant["n_slots"] for variant in summary["variants"]):
        own = [variant for variant in summary["variants"] if variant["n_slots"] == n_slots]
        parts += _of_slots(n_slots, own, summary["ratios"])
    is_edit = summary["settings"]["workload"] == "edit"
    parts.append(EDIT_EXPLAINED if is_edit else _EXPLAINED)
    if memory := growth_as_text(summary["memory"]):
        is_measured = any(size is not None for s in summary["memory"] for size in s["slots_together"]["measured_bytes"])
        parts.append(f"Memory, {_MEASURED if is_measured else _PREDICTED}\n{memory}")
    if summary["is_interrupted"]:
        parts.append("interrupted: these are the figures until then")
    return "\n\n".join(parts)


_MEASURED = "measured after the last run; in brackets what it is more or less than predicted (compute: not predicted)"
_PREDICTED = "predicted; this engine does not say what it took"


def _headline(summary: Mapping[str, Any]) -> Iterator[str]:
    model, settings = summary["model"], summary["settings"]
    place = f"{', '.join(model['devices'])}, {_many(model['n_threads'], 'thread')}"
    yield f"{model['description']}; {place}, {model['engine']}"
    prompts = settings["prompts"]
    lengths = sorted({prompt["max_tokens"] for prompt in prompts})
    temperatures = sorted({prompt["sampling"]["temperature"] for prompt in prompts})
    yield (
        f"{_many(len(prompts), 'prompt')} of up to {'/'.join(map(str, lengths))} tokens, temperature "
        f"{'/'.join(map(figure, temperatures))}; {_many(settings['n_repeats'], 'repeat')} of everything in turn after "
        f"a warm-up that is not counted; {duration(summary['elapsed_s'] * 1e9)}"
    )


def _of_slots(n_slots: int, variants: Variants, ratios: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    shown = [variant for variant in variants if variant["n_samples"]]
    if shown and shown[0]["edit"]:
        first, second = edit_tables(shown, _label)
        yield f"{_many(n_slots, 'slot')}\n{first}"
        yield second
    elif shown:
        rows = [_row(number, variant, is_first=variant is _first(shown)) for number, variant in enumerate(shown, 1)]
        yield f"{_many(n_slots, 'slot')}\n{table(_HEADER, rows)}"
    notes = [*_remarks(shown), *_not_available(variants)]
    if notes:
        yield "\n".join(notes)
    if 2 < len(shown) <= _MOST_COLUMNS and not shown[0]["edit"]:
        yield _among_each_other(shown, ratios)


def _first(shown: Variants) -> Mapping[str, Any]:
    return next((variant for variant in shown if variant["id"] == variant["reference"]), shown[0])


def _row(number: int, variant: Mapping[str, Any], *, is_first: bool) -> tuple[str, ...]:
    speed, ratio, decodes = variant["tokens_per_second"], variant["ratio"], variant["decodes"]
    return (
        f"{number:2} {_label(variant)}",
        figure_or_dash(speed["median"]),
        figure_or_dash(speed["best"]),
        _spread(speed),
        figure_or_dash(ratio["median"]),
        "" if is_first else _spread(ratio),
        percent_or_dash(variant["acceptance"]),
        figure_or_dash(variant["mean_accepted_length"]) if variant["draft_n"] else "-",
        figure_or_dash(decodes["target_per_round"]),
        figure_or_dash(decodes["draft_per_round"]),
        figure_or_dash(decodes["graph_runs_per_round"]),
        _time(variant["save_us"]),
        _time(variant["restore_us"]),
        "" if is_first and variant["tokens"]["are_equal"] else "same" if variant["tokens"]["are_equal"] else "differ",
    )


def _label(variant: Mapping[str, Any]) -> str:
    """With the way back in use where that was left to the engine, and the draft length where it is another one."""
    label = str(variant["label"])
    if variant["mode"] == "auto":
        ways = variant["granted"]
        words = [f"{way.replace('_', ' ')} {n}x" if len(ways) > 1 else way.replace("_", " ") for way, n in ways.items()]
        label = label.replace("auto", f"auto ({', '.join(words)})", 1)
    if variant["n_draft_granted"] not in (variant["n_draft_max"], None):
        label += f" (granted {variant['n_draft_granted']})"
    return label


def _remarks(shown: Variants) -> Iterator[str]:
    for number, variant in enumerate(shown, 1):
        if variant["n_fallbacks"]:
            yield f"{number:2} took another way back {_many(variant['n_fallbacks'], 'time')}"
        tokens = variant["tokens"]
        n_unequal = variant["n_samples"] - tokens["n_runs_equal"]
        for difference in tokens["first_differences"]:
            yield f"{number:2} {_difference(difference)} (in {n_unequal} of {_many(variant['n_samples'], 'run')})"


def _difference(difference: Mapping[str, Any]) -> str:
    place = f"slot {difference['slot']}, {difference['place']}: differs from token {difference['index'] + 1} on"
    ours, theirs = (_token(difference[name], difference[p]) for name, p in _SIDES)
    return f"{place}: {ours}, there {theirs}"


_SIDES = (("token", "probability"), ("reference_token", "reference_probability"))


def _token(token: int | None, probability: float | None) -> str:
    if token is None:
        return "the end"
    return f"token {token}" if probability is None else f"token {token} with p {figure(probability)}"


def _not_available(variants: Variants) -> Iterator[str]:
    """The reasons, each once."""
    labels: dict[str, list[str]] = {}
    for variant in variants:
        if not variant["is_available"]:
            labels.setdefault(variant["why_not"], []).append(variant["label"])
    for reason, names in labels.items():
        yield f"   not timed: {'; '.join(names)}: {reason}"


def _among_each_other(shown: Variants, ratios: Sequence[Mapping[str, Any]]) -> str:
    medians = {(ratio["of"], ratio["to"]): ratio["median"] for ratio in ratios}
    header = ("ratio of a line to a column", *(str(number) for number in range(1, len(shown) + 1)))
    rows = [
        (f"{number:2} {_label(one)}", *(figure_or_dash(medians.get((one["id"], other["id"]))) for other in shown))
        for number, one in enumerate(shown, 1)
    ]
    return table(header, rows)


def _spread(summary: Mapping[str, Any]) -> str:
    if summary["low"] is None:
        return "-"
    return f"{figure(summary['low'])}..{figure(summary['high'])}"


def _time(durations: Mapping[str, Any] | None) -> str:
    return "-" if not durations else duration(durations["median"] * 1e3)


def _many(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"
