"""What a token's tooltip says, in words. No Qt."""

from __future__ import annotations

import html
import math

from draftscope.base import units
from draftscope.engine.events import NO_ROUND, Origin
from draftscope.panels.token_flow import TokenFacts


def token_tip(facts: TokenFacts) -> str:
    """Rich text: how the token came, where it stands, its probability, and what the target chose instead."""
    lines = [f"<b>{shown(facts.text)}</b> {_origin(facts)}"]
    round_words = "first token, before round 0" if facts.round == NO_ROUND else f"round {facts.round}"
    place = "would have stood at position" if facts.origin == Origin.REJECTED else "position"
    lines.append(f"{round_words} · token {facts.token} · {place} {facts.position}")
    if facts.n_tokens > 1:
        lines.append(f"one character out of {facts.n_tokens} tokens")
    if not math.isnan(facts.probability):
        model = "target" if facts.origin == Origin.SAMPLED else "draft"
        lines.append(f"probability in the {model} model: {units.figure(facts.probability * 100)} %")
    if facts.origin == Origin.REJECTED:
        lines.append(_instead(facts))
    return "<br>".join(lines).replace("\n", "<br>")


def shown(text: str) -> str:
    """A token's text as it can be seen in a tooltip: escaped, with its white space made visible."""
    visible = text.replace("\n", "\\n").replace("\t", "\\t")
    return "&ldquo;" + html.escape(visible).replace(" ", "&nbsp;") + "&rdquo;"


def _origin(facts: TokenFacts) -> str:
    match facts.origin:
        case Origin.SAMPLED:
            return "sampled from the target model"
        case Origin.ACCEPTED:
            return f"accepted from the draft, position {facts.draft_position}"
        case Origin.REJECTED:
            return f"drafted at position {facts.draft_position}, rejected"


def _instead(facts: TokenFacts) -> str:
    if facts.chosen < 0:
        return "not looked at: the draft was off already before it"
    return f"the target chose {shown(facts.chosen_text)} instead (token {facts.chosen})"
