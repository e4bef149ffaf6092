"""What each slot wrote, every token marked as it came: accepted ones underlined, rejected ones struck."""

from __future__ import annotations

from collections.abc import Iterator

from draftscope.engine.events import Kind, Origin, Records
from draftscope.trace.pieces import PieceTable
from draftscope.trace.report.markup import Html, clean, element, joined
from draftscope.trace.trace import Trace

_MOST_TOKENS = 1_000
"""Tokens shown of a slot, so that a report of a long run can still be sent."""


def outputs(trace: Trace) -> Html:
    """The texts of all slots; empty where the file has none."""
    if len(trace.pieces) == 0:
        return Html("")
    tokens = trace.store.kind(Kind.TOKEN)
    parts: list[Html] = []
    for slot in sorted(set(tokens["slot"].tolist())):
        own = tokens[tokens["slot"] == slot]
        parts += [
            element("h3", f"Slot {slot}"),
            element("div", *_marked(own[:_MOST_TOKENS], trace.pieces), class_="text"),
        ]
        if len(own) > _MOST_TOKENS:
            more = f"Of {len(own):,} tokens, rejected ones included, the first {_MOST_TOKENS:,} are shown."
            parts.append(element("p", more, class_="dim"))
    note = element("p", "Underlined: drafted and accepted. Struck: drafted and rejected.", class_="dim")
    return element("section", element("h2", "Outputs"), note, joined(parts)) if parts else Html("")


def _marked(records: Records, pieces: PieceTable) -> Iterator[str]:
    decoder = pieces.decoder()
    rejected = decoder.branch()
    for code, token in zip(records["code"].tolist(), records["token"].tolist(), strict=True):
        if code == Origin.REJECTED:
            yield element("span", clean(rejected.decode(token)), class_="r")
            continue
        text = decoder.decode(token)
        rejected = decoder.branch()
        yield element("span", text, class_="a") if code == Origin.ACCEPTED else text
    yield decoder.finish()
