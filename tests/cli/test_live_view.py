"""What is printed while a run goes on."""

from __future__ import annotations

import contextlib
import io
from dataclasses import replace

from draftscope.cli.live_view import StreamView, View
from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.events import Kind, Origin, Records, empty_records
from tests.cli.scripted_client import result
from tests.cli.test_run_summary import MODEL, PLAN

PIECES = {1: b"Hel", 2: b"lo ", 3: "ä".encode()[:1], 4: "ä".encode()[1:], 5: b"<|end|>", 6: b"wor", 7: b"ld"}


def _tokens(*tokens: int, origin: Origin = Origin.SAMPLED) -> Records:
    records = empty_records(len(tokens))
    records["kind"], records["code"], records["token"] = Kind.TOKEN, origin, tokens
    return records


def _stream(stop: tuple[str, ...] = ()) -> tuple[StreamView, io.StringIO]:
    out = io.StringIO()
    return StreamView(replace(PLAN, stop=stop), out, is_verbose=False), out


def test_text_comes_as_its_tokens_come_but_for_the_newest() -> None:
    view, out = _stream()
    view.on_loaded(MODEL)
    view.on_start({})
    view.on_pieces(PIECES)
    view.on_records(_tokens(1, 2))
    assert out.getvalue() == "xHel"
    view.on_records(_tokens(6, origin=Origin.ACCEPTED))
    assert out.getvalue() == "xHello "


def test_what_a_restored_slot_holds_comes_first() -> None:
    view, out = _stream()
    view.on_start({(0, 0): "Once "})
    assert out.getvalue() == "Once x"


def test_rejected_tokens_are_not_printed() -> None:
    view, out = _stream()
    view.on_pieces(PIECES)
    view.on_records(_tokens(1, 2, origin=Origin.REJECTED))
    assert out.getvalue() == ""


def test_tokens_wait_for_their_bytes() -> None:
    view, out = _stream()
    view.on_records(_tokens(1, 2, 6))
    assert out.getvalue() == ""
    view.on_pieces(PIECES)
    assert out.getvalue() == "Hello "


def test_a_character_in_two_tokens_is_whole() -> None:
    view, out = _stream()
    view.on_pieces(PIECES)
    view.on_records(_tokens(3, 4, 1))
    assert out.getvalue() == "ä"


def test_the_last_token_is_printed_only_where_it_is_text() -> None:
    for tokens, text in (((1, 2, 5), "Hello "), ((1, 2, 6), "Hello wor")):
        view, out = _stream()
        view.on_pieces(PIECES)
        view.on_records(_tokens(*tokens))
        view.on_result(0, replace(result(0), text=text))
        assert out.getvalue() == f"{text}\n\n"


def test_a_stop_string_is_never_printed() -> None:
    view, out = _stream(stop=("o w",))
    view.on_pieces(PIECES)
    for token in (1, 2, 6, 7):
        view.on_records(_tokens(token))
    view.on_result(0, replace(result(0), text="Hell"))
    assert out.getvalue() == "Hell\n\n"


def test_the_store_gets_every_record() -> None:
    view = View(is_verbose=False)
    view.on_records(_tokens(1, 2))
    assert view.store.n_records == 2


def test_a_text_that_an_error_cuts_ends_its_line() -> None:
    view, out = _stream()
    with contextlib.suppress(EngineError), view:
        view.on_start({})
        raise EngineError(ErrorCode.BAD_GRAMMAR, "No.")
    assert out.getvalue() == "x\n"
    whole, out = _stream()
    with whole:
        whole.on_start({})
        whole.on_result(0, result(0))
    assert out.getvalue().endswith("\n\n")
    assert not out.getvalue().endswith("\n\n\n")
