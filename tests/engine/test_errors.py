"""Errors keep their three parts on the way through a process edge."""

from __future__ import annotations

from draftscope.engine.errors import EngineError, ErrorCode


def test_an_error_comes_back_from_its_report() -> None:
    error = EngineError(ErrorCode.BUSY, "Slot 0 is still generating.", "Wait for it.")
    back = EngineError.from_report(error.report())
    assert (back.code, back.message, back.hint) == (error.code, error.message, error.hint)
    assert str(back) == "Slot 0 is still generating."


def test_codes_are_what_scripts_test_for() -> None:
    assert {code.value for code in ErrorCode} == {code.name.lower() for code in ErrorCode}
