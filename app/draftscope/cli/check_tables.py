"""The tables of a check, from its JSON: the same for the terminal and for the Markdown report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from draftscope.base.units import duration
from draftscope.cli.terminal import figure_or_dash, percent_or_dash, table

Summary = Mapping[str, Any]

_OF_POSITIONS = """\
n: restores. From 'row of' to 'accepted' as it would be without the hook; with: as it is. row of: the position whose row
drafting goes on from, and the one expected. logits: draft-logit vectors that change, of all; top-1: likeliest tokens
that change; accepted: tokens of the draft from this row that did follow in the slot / of that from the saved row."""

_OF_STATES = """\
state: of all recurrent layers, bit for bit; rounding: after a native rollback, no further from decoding anew than that
is from itself, or than half precision rounds. layers: equal in every restore, or within rounding, or not. MTP context:
right after so many restores. rows in use: drafts from the row of their true position. tokens: replies that are those
without MTP."""

_OF_SPEEDS = """\
Probing off; {n} of runs in turn. tok/s: of all slots, median. ratio: to the line above, geometric mean of the pairs';
from, to: its 99 % interval by how they scatter, of three pairs or more. length: 1 + accepted / rounds."""


class Section(NamedTuple):
    """A table with what explains it; the first ``n_left`` columns are words."""

    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    n_left: int
    note: str


def sections_of(summary: Summary) -> Iterator[Section]:
    """All tables that have rows."""
    ways = [way for way in summary["ways"] if way["is_checked"]]
    sections = (_positions(ways), _states(ways), _speeds(ways, summary), _not_checked(summary))
    yield from (section for section in sections if section.rows)


def _positions(ways: Sequence[Summary]) -> Section:
    rows = [
        (
            way["label"],
            group["for"],
            _span(group["position"]),
            str(group["n_restores"]),
            *_without(group),
            *_with(group),
        )
        for way in ways
        for group in way["positions"]
    ]
    header = (
        *("way back", "for", "position", "n", "row of", "max |d|", "rms", "cosine", "logits", "top-1", "accepted"),
        *("with: max |d|", "with: logits", "with: top-1", "with: accepted"),
    )
    return Section("Hidden rows after restores", header, rows, 2, _OF_POSITIONS)


def _span(limits: Sequence[int]) -> str:
    if not limits:
        return "-"
    return str(limits[0]) if limits[0] == limits[1] else f"{limits[0]} to {limits[1]}"


def _without(group: Summary) -> Iterator[str]:
    omitted = group["omitted"]
    yield _rows(omitted["row_of"], group["row_position"])
    for name in ("max_abs", "rms", "cosine"):
        yield figure_or_dash(omitted[name])
    yield from _effects(omitted)


def _with(group: Summary) -> Iterator[str]:
    yield figure_or_dash(group["enabled"]["max_abs"])
    yield from _effects(group["enabled"])


def _rows(found: Sequence[int], expected: Sequence[int]) -> str:
    if not found:
        return "-"
    words = {-1: "unknown", -2: "zeros"}
    first = f"{len(found)} others" if len(found) > 1 else words.get(found[0], str(found[0]))
    return f"{first}, not {_span(expected)}" if len(expected) and list(found) != [expected[0]] else first


def _effects(of: Summary) -> Iterator[str]:
    yield f"{of['n_vectors_changed']}/{of['n_vectors']}" if of["n_vectors"] else "-"
    yield f"{of['n_top_changed']}/{of['n_vectors']}" if of["n_vectors"] else "-"
    yield f"{of['accepted']}/{of['accepted_saved']}" if of["n_told"] else "-"


def _states(ways: Sequence[Summary]) -> Section:
    rows = [(way["label"], *_state(way)) for way in ways]
    header = (
        "way back",
        "restores",
        "state equal",
        "rounding",
        "differs",
        "layers",
        "MTP context",
        "rows in use",
        "tokens",
    )
    return Section("What else is put back", header, rows, 1, _OF_STATES)


def _state(way: Summary) -> Iterator[str]:
    statuses: dict[str, int] = {}
    for group in way["positions"]:
        for name, n in group["state"]["by_status"].items():
            statuses[name] = statuses.get(name, 0) + n
    n_probed = sum(group["n_restores"] for group in way["positions"])
    has_layers = not statuses.get("no_recurrent_layers")
    yield str(n_probed)
    for name in ("equal", "rounding", "differs"):
        yield f"{statuses.get(name, 0)}/{n_probed}" if has_layers and n_probed else "-"
    yield layers_words(way["layers"])
    companions = [group["companion"] for group in way["positions"]]
    n_right, n = (sum(of[name] for of in companions) for name in ("n_right", "n"))
    yield f"{n_right}/{n}" if n else "-"
    rows, tokens = way["rows_in_use"], way["tokens"]
    yield f"{rows['n_right']}/{rows['n']}" if rows["n"] else "-"
    yield f"{tokens['n_equal']}/{tokens['n_replies']}"


def layers_words(layers: Sequence[Summary]) -> str:
    """How many recurrent layers are equal in every restore, how many within rounding, how many not."""
    if not layers:
        return "-"
    n_equal = sum(layer["n"] == layer["n_equal"] for layer in layers)
    n_alike = sum(layer["n"] == layer["n_equal"] + layer["n_rounding"] for layer in layers)
    parts = ((n_equal, "equal"), (n_alike - n_equal, "within rounding"), (len(layers) - n_alike, "differ"))
    return ", ".join(f"{words} {n}" for n, words in parts if n or words == "equal")


def _speeds(ways: Sequence[Summary], summary: Summary) -> Section:
    fault = summary["settings"]["fault"]
    other = "without the hook" if fault == "none" else fault
    rows = [row for way in ways if way["timed"] for row in _timed(way["label"], way["timed"], other)]
    header = ("way back", "", "tok/s", "best", "least", "most", "accepted", "length", "ratio", "from", "to")
    note = _OF_SPEEDS.format(n=_many(summary["settings"]["n_pairs"], "pair"))
    return Section("Acceptance and speed", header, rows, 2, note)


def _timed(label: str, timed: Summary, other: str) -> Iterator[tuple[str, ...]]:
    for name, of in (("with the hook", timed["enabled"]), (other, timed["other"])):
        speed = of["tokens_per_second"]
        ratio = [figure_or_dash(timed["change"][key]) for key in ("ratio", "low", "high")]
        yield (
            *(label, name, *(figure_or_dash(speed[key]) for key in ("median", "best", "low", "high"))),
            *(percent_or_dash(of["acceptance"]), figure_or_dash(of["mean_accepted_length"])),
            *(ratio if of is timed["other"] else ("", "", "")),
        )


def _not_checked(summary: Summary) -> Section:
    rows = [(way["mode"], way["why_not"]) for way in summary["ways"] if way["why_not"]]
    return Section("Not checked", ("way back", "why"), rows, 2, "")


# ---- as text


def _many(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def headline(summary: Summary) -> Iterator[str]:
    """What was checked, on what, with what."""
    model, settings, workload = summary["model"], summary["settings"], summary["workload"]
    common = settings["common"]
    place = f"{', '.join(model['devices'])}, {_many(model['n_threads'], 'thread')}"
    yield f"{model['description']}; {place}, {model['engine']}"
    yield (
        f"{_many(workload['n_conversations'], 'conversation')} of {workload['n_turns']} turns and "
        f"{workload['n_edits']} edits, as {workload['form']}, in {_many(common['n_slots'], 'slot')}; drafts of "
        f"{common['n_draft_max']}; temperature 0; {duration(summary['elapsed_s'] * 1e9)}"
    )


def as_text(summary: Summary) -> str:
    """For a terminal."""
    parts = ["\n".join(headline(summary))]
    for section in sections_of(summary):
        text = f"{section.title}\n{table(section.header, section.rows, section.n_left)}"
        parts.append(f"{text}\n{section.note}" if section.note else text)
    parts.append("\n".join(["Verdict", *summary["verdict"]]))
    return "\n\n".join(parts)


def as_markdown(summary: Summary, program: str) -> str:
    """For a bug report: what was run, the verdict, every table, and what the figures mean."""
    settings = summary["settings"]
    lines = ["# Check of restores", "", f"{program}; `{settings['model']['path']}`", "", *headline(summary)]
    lines += ["", "## Verdict", "", *(f"- {sentence}" for sentence in summary["verdict"])]
    for section in sections_of(summary):
        lines += ["", f"## {section.title}", "", _markdown_row(section.header)]
        lines.append(_markdown_row(["---" if i < section.n_left else "---:" for i in range(len(section.header))]))
        lines += [_markdown_row(row) for row in section.rows]
        lines += ["", section.note] if section.note else []
    lines += ["", "## What the figures mean", ""]
    lines += [f"- **{name}**: {meaning}" for name, meaning in summary["definitions"].items()]
    return "\n".join(lines) + "\n"


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
