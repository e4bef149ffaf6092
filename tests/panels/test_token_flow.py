"""Tokens in reading order: characters over several tokens, rejected drafts, pieces that come late."""

from __future__ import annotations

import numpy as np
import pytest

from draftscope.engine.events import Kind, Origin, Records, empty_records
from draftscope.panels.token_flow import TokenFlow
from draftscope.panels.token_tip import token_tip
from draftscope.trace.pieces import PieceTable

SUN = "日".encode()


def tokens(*rows: tuple[Origin, int, int, int]) -> Records:
    """TOKEN records from (origin, token, draft position, chosen instead)."""
    records = empty_records(len(rows))
    records["kind"] = Kind.TOKEN
    for record, (origin, token, draft, chosen) in zip(records, rows, strict=True):
        record["code"], record["token"], record["n"], record["m"] = origin, token, draft, chosen
        record["value"] = 0.5
    return records


@pytest.fixture
def pieces() -> PieceTable:
    return PieceTable({1: b" sun", 2: b" moon", 3: SUN[:1], 4: SUN[1:2], 5: SUN[2:], 6: b""})


def test_a_character_belongs_to_the_token_that_completes_it(pieces: PieceTable) -> None:
    flow = TokenFlow(pieces)
    flow.append(tokens(*((Origin.SAMPLED, token, 0, -1) for token in (1, 3, 4, 5, 2))))
    assert flow.texts == [" sun", "", "", "日", " moon"]
    assert list(flow.group(3)) == [1, 2, 3]
    assert flow.facts(3).n_tokens == 3
    assert flow.facts(4).n_tokens == 1


def test_a_rejected_token_leaves_the_kept_text_whole(pieces: PieceTable) -> None:
    flow = TokenFlow(pieces)
    rows = ((Origin.SAMPLED, 3, 0, -1), (Origin.REJECTED, 2, 1, 4), (Origin.REJECTED, 5, 2, -1))
    flow.append(tokens(*rows, (Origin.SAMPLED, 4, 0, -1), (Origin.ACCEPTED, 5, 1, -1)))
    assert flow.kept_text() == "日"


def test_a_rejected_token_that_would_have_completed_a_character_shows_it(pieces: PieceTable) -> None:
    flow = TokenFlow(pieces)
    flow.append(tokens((Origin.SAMPLED, 3, 0, -1), (Origin.SAMPLED, 4, 0, -1), (Origin.REJECTED, 5, 1, 1)))
    assert flow.texts[-1] == "日"


def test_tokens_wait_in_order_for_their_bytes(pieces: PieceTable) -> None:
    flow = TokenFlow(pieces)
    flow.append(tokens((Origin.SAMPLED, 1, 0, -1), (Origin.SAMPLED, 9, 0, -1), (Origin.SAMPLED, 2, 0, -1)))
    assert (flow.texts, flow.n_waiting) == ([" sun"], 2)
    pieces.add({9: b" star"})
    flow.append(empty_records())
    assert (flow.texts, flow.n_waiting) == ([" sun", " star", " moon"], 0)


def test_bytes_that_never_come_are_shown_as_ids(pieces: PieceTable) -> None:
    flow = TokenFlow(pieces)
    flow.append(tokens((Origin.SAMPLED, 9, 0, -1), (Origin.SAMPLED, 6, 0, -1)), has_pieces=False)
    assert flow.texts == ["[9]", "[6]"]


def test_a_flow_may_grow_far_beyond_its_first_room(pieces: PieceTable) -> None:
    flow = TokenFlow(pieces)
    for _ in range(40):
        flow.append(tokens(*((Origin.SAMPLED, 1, 0, -1) for _ in range(50))))
    assert len(flow) == 2000
    assert flow.facts(1999).token == 1


def test_the_tip_tells_what_the_target_chose_instead(pieces: PieceTable) -> None:
    flow = TokenFlow(pieces)
    flow.append(tokens((Origin.REJECTED, 1, 2, 2)))
    tip = token_tip(flow.facts(0))
    assert "drafted at position 2, rejected" in tip
    assert "moon" in tip
    assert "token 2" in tip
    assert "50.0 %" in tip


def test_the_tip_of_a_token_without_probability_names_none(pieces: PieceTable) -> None:
    records = tokens((Origin.SAMPLED, 1, 0, -1))
    records["value"] = np.nan
    flow = TokenFlow(pieces)
    flow.append(records)
    assert "probability" not in token_tip(flow.facts(0))


def test_the_tip_escapes_what_the_model_wrote() -> None:
    flow = TokenFlow(PieceTable({1: b"<b>&"}))
    flow.append(tokens((Origin.SAMPLED, 1, 0, -1)))
    assert "&lt;b&gt;&amp;" in token_tip(flow.facts(0))
