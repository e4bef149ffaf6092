"""The report as a whole: one HTML file."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path

from draftscope import __version__
from draftscope.base import units
from draftscope.engine.events import Kind
from draftscope.trace.acceptance import AcceptanceTable
from draftscope.trace.compare_settings import tasks_of
from draftscope.trace.errors import TraceError
from draftscope.trace.json_text import without_text
from draftscope.trace.pieces import PieceTable
from draftscope.trace.report import sections
from draftscope.trace.report.markup import Html, element, joined
from draftscope.trace.report.outputs import outputs
from draftscope.trace.report.restores import restores
from draftscope.trace.report.run_facts import model_name, recorded_at
from draftscope.trace.report.style import style_sheet
from draftscope.trace.trace import Trace


def write_report(trace: Trace, path: Path, *, with_text: bool = True) -> int:
    """Write the report of a trace and tell its size in bytes; an older file of that name is replaced as a whole.

    Raises:
        TraceError: the place cannot be written.
    """
    content = report_page(trace, with_text=with_text).encode()
    fresh = path.with_name(f"{path.name}.part")
    try:
        fresh.write_bytes(content)
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise TraceError(f"The report {path} cannot be written: {error.strerror}.") from error
    return len(content)


def report_page(trace: Trace, *, with_text: bool = True) -> str:
    """The page. Without text it has no prompt, no output, no token id, no grammar and no line of the log."""
    if not with_text:
        trace = _stripped(trace)
    acceptance = AcceptanceTable()
    acceptance.update(trace.store)
    name = model_name(trace.header)
    body = (
        element("h1", f"Run of {name}"),
        element("p", _subtitle(trace, with_text=with_text), class_="dim"),
        _missing(trace),
        element("div", *(_tile(value, words) for value, words in _tiles(trace, acceptance)), class_="tiles"),
        sections.what_ran(trace),
        sections.by_slot(trace, acceptance),
        sections.acceptance(acceptance),
        sections.rounds(trace),
        sections.checkpoints(trace),
        restores(trace),
        sections.fallbacks(trace),
        sections.memory(trace),
        sections.prompts(trace) if with_text else "",
        outputs(trace),
        sections.log(trace),
        sections.definitions(),
    )
    head = joined(
        (
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("title", f"{name} · Draftscope report"),
            Html(f"<style>{style_sheet()}</style>"),
        )
    )
    page = element("html", element("head", head), element("body", element("main", *body)), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def _stripped(trace: Trace) -> Trace:
    settings = without_text(trace.header)
    kept = [_without_forms(task) for task in tasks_of(trace.header)]
    if isinstance(settings.get("settings"), dict) and kept:
        settings["settings"]["prompts"] = kept
    return dataclasses.replace(
        trace,
        header=settings,
        pieces=PieceTable(),
        results=[without_text(result) for result in trace.results],
        log=[],
    )


def _without_forms(task: dict[str, object]) -> dict[str, object]:
    """How a prompt was sampled, without what it was and what its output had to be."""
    left_out = ("prompt", "grammar", "json_schema", "stop")
    return {key: value for key, value in task.items() if key not in left_out}


def _subtitle(trace: Trace, *, with_text: bool) -> str:
    when, program = recorded_at(trace.header), trace.header.get("program")
    parts = [f"recorded {when}"] if when else []
    parts += [program] if isinstance(program, str) else []
    parts.append(f"{trace.store.n_records:,} records")
    if not with_text:
        parts.append("without the text of prompts and outputs, grammars and the log, which may quote them")
    elif len(trace.pieces) == 0:
        parts.append("without the text of prompts and outputs")
    parts.append(f"report by Draftscope {__version__}")
    return " · ".join(parts)


def _missing(trace: Trace) -> Html:
    """What the file lacks, before any figure."""
    sentences = []
    sentences += trace.missing
    if trace.store.n_missing:
        sentences.append(f"{trace.store.n_missing:,} records are missing; counts are too low by them.")
    if not sentences:
        return Html("")
    return element(
        "section", element("h2", "What is missing"), *(element("p", text) for text in sentences), class_="warn"
    )


def _tiles(trace: Trace, acceptance: AcceptanceTable) -> Iterator[tuple[str, str]]:
    total = acceptance.total()
    if not math.isnan(total.tokens_per_second):
        yield units.figure(total.tokens_per_second), "tokens per second, all slots"
    if total.draft_n:
        yield units.percent(total.rate), "of drafted tokens accepted"
        yield units.figure(total.mean_accepted_length), "tokens a round and slot"
    yield f"{len(set(trace.store.kind(Kind.ROUND)['round'].tolist())):,}", "rounds"
    yield f"{len(acceptance.slots())}", "slots"
    if way := sections.used_mechanism(trace):
        yield way, "way back"
    yield f"{len(trace.store.kind(Kind.FALLBACK)):,}", "fallbacks"


def _tile(value: str, words: str) -> Html:
    return element("div", element("b", value), element("span", words), class_="tile")
