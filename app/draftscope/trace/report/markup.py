"""HTML and SVG as strings that cannot be forgotten to escape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_EMPTY = frozenset({"meta", "br", "rect", "line", "polyline", "circle"})


class Html(str):
    """Text that is markup; any other string is escaped where it is put in."""

    __slots__ = ()


def element(name: str, /, *content: str, **attributes: str | float | None) -> Html:
    """An element. ``class_`` becomes ``class``, ``stroke_width`` ``stroke-width``; None leaves an attribute out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_attribute(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _EMPTY:
        return Html(f"<{name}{given}/>")
    return Html(f"<{name}{given}>{joined(content)}</{name}>")


def joined(content: Iterable[str], between: str = "") -> Html:
    """Pieces one after the other, each escaped unless it is markup."""
    return Html(between.join(part if isinstance(part, Html) else escape(clean(part)) for part in content))


def clean(text: str) -> str:
    """Without the characters that HTML may not hold; they show as U+FFFD."""
    return "".join(
        character
        if character >= " " and not 0x7F <= ord(character) <= 0x9F and not 0xD800 <= ord(character) <= 0xDFFF
        else character
        if character in "\t\n"
        else "\N{REPLACEMENT CHARACTER}"
        for character in text.replace("\r\n", "\n")
    )


def _attribute(value: str | float) -> str:
    return clean(value) if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


def table(header: Sequence[str], rows: Iterable[Sequence[str]], n_left: int = 1) -> Html:
    """A table, its first ``n_left`` columns to the left and the others, figures, to the right."""

    def cells(name: str, row: Sequence[str]) -> Html:
        return joined(element(name, cell, class_=None if place < n_left else "n") for place, cell in enumerate(row))

    head = element("thead", element("tr", cells("th", header))) if any(header) else Html("")
    body = element("tbody", *(element("tr", cells("td", row)) for row in rows))
    return element("div", element("table", head, body), class_="wide")


def facts(rows: Iterable[tuple[str, str]], *, are_short: bool = False) -> Html:
    """Names and values; short ones stand two in a line."""
    pairs = (joined((element("dt", name), element("dd", value))) for name, value in rows)
    return element("dl", *pairs, class_="two" if are_short else None)
