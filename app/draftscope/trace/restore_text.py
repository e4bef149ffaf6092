"""Restores as text to paste and to compute with: a Markdown table, CSV with every figure, and one restore whole."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from typing import Any

from draftscope.base import units
from draftscope.engine.events import Mechanism
from draftscope.engine.probes import FAULTS, LEVELS, PROBE_COLUMNS, Fault, RestoreKind, StateStatus
from draftscope.trace.probe_words import FAULT_WORDS
from draftscope.trace.restore_verdict import Verdict, effect_of, findings_of, remarks_of, worth_of
from draftscope.trace.restores import KIND_WORDS, RestoreTable

_HEAD = ("round", "slot", "what for", "mode", "position", "replay", "took", "verdict")
_OWN_COLUMNS = ("t_start_ns", "duration_ns", "size_bytes", "round", "slot", "position", "n_replay")
_SHARED = {*_OWN_COLUMNS, "kind", "mechanism", "level", "fault"}


def mode_words(mechanism: int) -> str:
    """How a restore went back, as tables have it."""
    return "whole state" if mechanism == Mechanism.NONE else Mechanism(mechanism).name.lower().replace("_", " ")


def markdown_table(table: RestoreTable, places: Iterable[int]) -> str:
    """These restores, a row each."""
    lines = [f"| {' | '.join(_HEAD)} |", f"|{'---|' * len(_HEAD)}"]
    lines += [f"| {' | '.join(_cells(table, place))} |" for place in places]
    return "\n".join(lines) + "\n"


def _cells(table: RestoreTable, place: int) -> tuple[str, ...]:
    row = table.rows[place]
    return (
        "–" if row["round"] < 0 else str(row["round"]),
        str(row["slot"]),
        KIND_WORDS[RestoreKind(int(row["kind"]))],
        mode_words(int(row["mechanism"])),
        str(row["position"]),
        str(row["n_replay"]),
        units.duration(float(row["duration_ns"])),
        table.words(place),
    )


def csv_table(table: RestoreTable, places: Iterable[int]) -> str:
    """These restores with every figure that was measured, named as in ``PROBE_COLUMNS``; empty where none was."""
    measured = [column.name for column in PROBE_COLUMNS if column.name not in _SHARED]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*_OWN_COLUMNS, "kind", "mechanism", "level", "fault", "verdict", "words", *measured))
    for place in places:
        row, probe = table.rows[place], table.probe(place)
        head = (RestoreKind(int(row["kind"])).name.lower(), Mechanism(int(row["mechanism"])).name.lower())
        level, fault = ("", "") if probe is None else (LEVELS[int(probe["level"])], FAULTS[int(probe["fault"])])
        verdict = Verdict(int(row["verdict"])).name.lower()
        own = [row[name].item() for name in _OWN_COLUMNS]
        figures = [_figure(probe, name) for name in measured]
        writer.writerow((*own, *head, str(level), str(fault), verdict, table.words(place), *figures))
    return text.getvalue()


def _figure(probe: Any | None, name: str) -> str:
    if probe is None:
        return ""
    value = probe[name].item()
    return "" if isinstance(value, float) and math.isnan(value) else repr(value)


def restore_markdown(table: RestoreTable, place: int) -> str:
    """One restore whole: what it was, the verdict, every finding, its effect, and the figures."""
    row, probe = table.rows[place], table.probe(place)
    where = f"slot {row['slot']}" + (f", round {row['round']}" if row["round"] >= 0 else "")
    lines = [f"### Restore of {where}", "", markdown_table(table, [place])]
    if probe is None:
        return "\n".join([*lines, "Not probed.", ""])
    lines += [f"- {words}" for words in probe_sentences(probe)]
    lines += ["", "| figure | value | meaning |", "|---|---|---|"]
    for column in PROBE_COLUMNS:
        value = _figure(probe, column.name)
        if value and column.name not in _SHARED and value != "-1":
            unit = f" {column.unit}" if column.unit else ""
            lines.append(f"| {column.name} | {value}{unit} | {column.meaning} |")
    return "\n".join(lines) + "\n"


def probe_sentences(probe: Any) -> tuple[str, ...]:
    """What a probe says, a sentence each: findings, their effect, what could not be compared, the hook's worth."""
    findings, effect = findings_of(probe), effect_of(probe)
    sentences = [_sentence(finding.words) for finding in findings] or [_equal(probe)]
    if effect.matters is not None:
        sentences.append(_sentence(effect.words))
    sentences += [_sentence(words) for words in remarks_of(probe)]
    fault = FAULTS[int(probe["fault"])]
    if fault is not Fault.NONE:
        sentences.append(f"A fault was injected on purpose: {FAULT_WORDS[fault]}.")
    return tuple(sentence for sentence in (*sentences, worth_of(probe)) if sentence)


def _equal(probe: Any) -> str:
    parts = []
    if probe["restored_n_differing"] == 0:
        parts.append(f"all {int(probe['row_width']):,} dimensions of the row")
    if probe["companion_expected"] >= 0:
        parts.append(f"the {int(probe['companion_expected']):,} positions of the MTP context")
    if probe["state_status"] == StateStatus.EQUAL:
        parts.append(f"{int(probe['n_layers']):,} recurrent layers")
    return f"Equal bit for bit: {', '.join(parts)}." if parts else ""


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."
