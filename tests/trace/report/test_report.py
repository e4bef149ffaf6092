"""The report: one page that needs nothing else, says everything, and is safe whatever the trace holds."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from draftscope.engine.events import FallbackReason, Kind, Mechanism, SlotState
from draftscope.engine.probes import LEVELS, ProbeLevel, RestoreKind
from draftscope.trace.errors import TraceError
from draftscope.trace.pieces import PieceTable
from draftscope.trace.report import report_page, write_report
from draftscope.trace.trace import Trace
from tests.trace.compared import run
from tests.trace.export.made_probes import with_probes
from tests.trace.probed import probe, restore, store_with
from tests.trace.synthetic import PIECES, make_records, make_store, make_trace, record

HOSTILE = "</pre></style><script>alert('x')</script><img src=x onerror=y>\"&\x00\x1b"


class Page(HTMLParser):
    """Elements, attributes and text of a page; fails on elements that are not closed in order."""

    VOID = frozenset({"meta", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs
        self._open += [] if tag in self.VOID else [tag]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.words.append(data)

    @property
    def text(self) -> str:
        """All that is written."""
        return " ".join(self.words)


def whole_trace() -> Trace:
    """A trace with everything in it."""
    trace = run()
    trace.header = {
        "program": "draftscope test",
        "engine": "llama.cpp test",
        "clock": {"utc": "2026-11-29T12:00:00.000+00:00"},
        "machine": {"processor": "workbench", "memory_bytes": 2**33},
        "model": {
            "path": "/models/tiny.gguf",
            "n_params": 7_000_000,
            "size_bytes": 2**20,
            "speculation": {"is_active": True, "n_draft_max": 3, "family": "single_head"},
            "way_back": {"granted": "host", "asked": "auto", "why": "the cheapest"},
            "memory": [{"kind": "kv", "host_bytes": 2**20, "device_bytes": 0, "predicted_bytes": -1}],
        },
        "settings": {
            "context": {"n_slots": 4},
            "prompts": [
                {"prompt": {"text": "a secret prompt"}, "grammar": "a secret grammar", "sampling": {"seed": 3}}
            ],
        },
    }
    trace.results = [{"slot": 0, "stop": "max_tokens", "n_prompt": 20, "ttft_ms": 12.0, "text": "a secret text"}]
    trace.log = [(1, "info", "the last line")]
    return trace


def test_a_report_has_the_pictures_and_tables_that_a_bug_report_needs() -> None:
    page = Page(report_page(whole_trace()))
    for words in (
        "Run of tiny.gguf",
        "workbench",
        "8.00 GiB",
        "checkpoints in host memory (asked for: auto)",
        "up to 3 tokens a round",
        "n slots",
        "token limit",
        "position 3",
        "The slowest round",
        "save, checkpoints in host memory",
        "there was no room",
        "1.00 MiB",
        "a secret prompt",
        "a secret grammar",
        "the last line",
        "accepted / drafted tokens",
    ):
        assert words in page.text, words
    assert page.names.count("svg") == 5


def test_a_report_loads_nothing_and_has_no_scripts() -> None:
    text = report_page(whole_trace())
    page = Page(text)
    assert not {"script", "img", "link", "iframe", "object"} & set(page.names)
    assert not [value for name, value in page.attributes if name in ("src", "href") or name.startswith("on")]
    assert "url(" not in text and "@import" not in text
    assert "prefers-color-scheme: dark" in text


def test_nothing_in_a_trace_becomes_markup() -> None:
    trace = whole_trace()
    trace.header["program"] = trace.header["model"]["path"] = HOSTILE
    trace.header["machine"] = {HOSTILE: HOSTILE}
    trace.header["settings"] = {
        "prompts": [{"prompt": {"text": HOSTILE, "messages": [{"role": HOSTILE}]}}],
        HOSTILE: [1],
    }
    trace.results = [{"slot": HOSTILE, "stop": HOSTILE, "error": HOSTILE, "ttft_ms": HOSTILE}]
    trace.log = [(0, HOSTILE, HOSTILE)]
    trace.missing = [HOSTILE]
    trace.pieces = PieceTable(dict.fromkeys(PIECES, HOSTILE.encode()))
    text = report_page(trace)
    page = Page(text)
    assert not {"script", "img"} & set(page.names)
    assert "\x00" not in text and "\x1b" not in text
    assert page.names.count("style") == page.names.count("main") == 1


def test_without_text_no_prompt_no_output_and_no_grammar_is_in_it() -> None:
    trace = whole_trace()
    trace.log.append((2, "error", "a secret line"))
    page = Page(report_page(trace, with_text=False))
    assert "secret" not in page.text and "the last line" not in page.text
    assert "grammars and the log" in page.text
    assert " cat" not in page.text
    assert "without the text of prompts and outputs" in page.text
    assert "seed" in page.text  # how it was sampled stays
    assert trace.header["settings"]["prompts"][0]["prompt"]["text"] == "a secret prompt"  # the trace is as it was


def test_outputs_mark_what_was_accepted_and_what_was_rejected() -> None:
    text = report_page(make_trace())
    assert re.search(r'<span class="a">[^<]+</span>', text)
    assert re.search(r'<span class="r">[^<]+</span>', text)


def test_what_is_missing_stands_before_the_figures() -> None:
    trace = run()
    trace.missing = ["The recording was cut off."]
    trace.store.n_missing = 7
    text = Page(report_page(trace)).text
    assert (
        text.index("The recording was cut off.") < text.index("7 records are missing") < text.index("tokens per second")
    )


@pytest.mark.parametrize(
    "records",
    [
        make_records(0),
        make_records(1, n_draft=0),
        make_records(1),
        record(Kind.SAVE, code=Mechanism.COW, duration_ns=0),
    ],
)
def test_traces_with_hardly_anything_have_a_report(records: object) -> None:
    assert Page(report_page(Trace(store=make_store(records)))).names  # type: ignore[arg-type]


def test_an_empty_trace_has_a_report() -> None:
    assert "an unknown model" in Page(report_page(Trace())).text


def test_restores_that_were_probed_are_told_with_their_verdicts() -> None:
    text = Page(report_page(with_probes(make_trace()))).text
    assert "Restores that were probed" in text
    assert "Restores that were probed" not in Page(report_page(make_trace())).text


def test_the_report_tells_what_probes_cost_and_what_the_hook_is_worth() -> None:
    hidden = probe(slot=1, kind=RestoreKind.PROMPT, level=LEVELS.index(ProbeLevel.HIDDEN), n_vocab=0, duration_ns=500)
    trace = Trace(
        store=store_with(
            record(Kind.SLOT, t_start_ns=0, code=SlotState.GENERATING),
            restore(10_000),
            restore(30_000),
            record(Kind.ROW, t_start_ns=31_000, duration_ns=500, position=5, n=5),
            record(Kind.ROW, t_start_ns=32_000, duration_ns=0, position=9, n=4),
            record(Kind.SLOT, t_start_ns=100_000, code=SlotState.IDLE),
            probes=(probe(14_000), probe(34_000, saved_accepted=3, restored_accepted=3), hidden),
        )
    )
    text = Page(report_page(trace)).text
    assert "Level hidden (1 restore), state (2 restores)" in text
    assert "Cost 1.00 µs, 1 % of the time." in text
    assert "Rows in use 1 of 2 drafts from the right row, 1 from another position's" in text
    assert "rejected draft with the hook 0 of 2 0 0 of 2 5 of 5" in text
    assert "rejected draft without it 2 of 2 2.50 2 of 2 0 of 5" in text
    assert "edited prompt without it 1 of 1 2.50 – –" in text


def test_many_fallbacks_are_cut_to_the_first() -> None:
    trace = Trace()
    for number in range(60):
        trace.store.append(record(Kind.FALLBACK, code=FallbackReason.REFUSED, round=number, sequence=number))
    text = Page(report_page(trace)).text
    assert "Slot 0, round 49" in text and "Slot 0, round 50" not in text
    assert "and 10 more." in text


def test_a_report_replaces_an_older_one_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    assert write_report(make_trace(), path) == path.stat().st_size
    assert [child.name for child in tmp_path.iterdir()] == ["report.html"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be written"):
        write_report(make_trace(), tmp_path / "nowhere" / "report.html")
