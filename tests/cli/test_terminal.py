"""Progress lines and tables."""

from __future__ import annotations

import io

from draftscope.cli.terminal import ProgressLine, table


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_drawn_and_erased_on_a_terminal() -> None:
    stream = _Terminal()
    with ProgressLine(stream) as line:
        line.show("Loading", 0.25)
        assert "Loading  25%" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_progress_is_silent_in_a_file() -> None:
    stream = io.StringIO()
    with ProgressLine(stream) as line:
        line.show("Loading", 0.25)
    assert stream.getvalue() == ""


def test_progress_is_not_drawn_faster_than_it_can_be_read() -> None:
    stream = _Terminal()
    line = ProgressLine(stream)
    for step in range(1000):
        line.show("Loading", step / 1000)
    assert stream.getvalue().count("Loading") < 20


def test_columns_are_aligned() -> None:
    assert table(("name", "n"), [("a", "100"), ("bcdef", "2")]) == "name     n\na      100\nbcdef    2"
