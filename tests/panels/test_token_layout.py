"""Wrapping of tokens into lines."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from draftscope.panels.token_layout import TokenLayout, n_cells

TEXTS = st.lists(st.text(alphabet="ab \n\té日", max_size=12), max_size=40)


def lines(layout: TokenLayout) -> list[str]:
    """Texts of the lines."""
    return ["".join(part.text for part in line) for line in layout.lines]


def test_that_a_word_over_several_tokens_is_kept_together() -> None:
    layout = TokenLayout(12)
    for token, text in enumerate(["one", " two", " thr", "ee", " four"]):
        layout.append(token, text)
    assert lines(layout) == ["one two", "three four"]


def test_that_a_word_longer_than_a_line_is_broken() -> None:
    layout = TokenLayout(8)
    layout.append(0, "abcdefghijklmnopqr")
    assert lines(layout) == ["abcdefgh", "ijklmnop", "qr"]


def test_that_the_indent_of_a_line_is_kept() -> None:
    layout = TokenLayout(20)
    layout.append(0, "def f():\n")
    layout.append(1, "    return")
    assert lines(layout) == ["def f():", "    return"]


def test_that_lines_break_between_wide_characters() -> None:
    layout = TokenLayout(8)
    layout.append(0, "日本語日本語")
    assert lines(layout) == ["日本語日", "本語"]


def test_that_a_combining_mark_takes_no_cell() -> None:
    assert n_cells("e\u0301a") == 2
    assert n_cells("日a") == 3


def test_that_a_token_is_found_where_it_stands() -> None:
    layout = TokenLayout(20)
    layout.append(0, "ab")
    layout.append(1, " cd")
    assert layout.token_at(0, 1.5) == 0
    assert layout.token_at(0, 3.2) == 1
    assert layout.token_at(0, 9.0) is None
    assert layout.token_at(4, 0.0) is None


def test_that_the_first_line_of_a_token_follows_it_to_the_next_line() -> None:
    layout = TokenLayout(10)
    layout.append(0, "12345678")
    layout.append(1, " abc")
    assert layout.line_of(0) == 0
    assert layout.line_of(1) == 1


def test_that_append_names_the_first_line_it_changed() -> None:
    layout = TokenLayout(10)
    layout.append(0, "one two\nthree")
    assert layout.append(1, " four five") == 1


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.integers(8, 30))
def test_that_growing_gives_the_lines_of_laying_out_at_once(texts: list[str], n_columns: int) -> None:
    grown = TokenLayout(n_columns)
    for token, text in enumerate(texts):
        grown.append(token, text)
    kept = "".join(texts).replace("\n", "").replace("\t", " ")
    shown = "".join(lines(grown))
    assert shown.replace(" ", "") == kept.replace(" ", "")


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.integers(8, 30))
def test_that_only_white_space_hangs_over_the_end_of_a_line(texts: list[str], n_columns: int) -> None:
    layout = TokenLayout(n_columns)
    for token, text in enumerate(texts):
        layout.append(token, text)
    for line in layout.lines:
        for part in line:
            assert part.x + n_cells(part.text.rstrip()) <= n_columns or not part.text.strip()


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.integers(8, 30))
def test_that_every_first_line_holds_its_token(texts: list[str], n_columns: int) -> None:
    layout = TokenLayout(n_columns)
    for token, text in enumerate(texts):
        layout.append(token, text)
    for token, line in layout.first_lines.items():
        assert any(part.token == token for part in layout.lines[line])
