"""Pieces of text that are cut inside characters."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from draftscope.trace.pieces import PieceTable

EURO = {1: b"\xe2\x82", 2: b"\xac", 3: b"!"}


def test_a_character_that_is_cut_in_two_is_put_together():
    assert PieceTable(EURO).text([1, 2, 3]) == "€!"


def test_bytes_that_are_no_text_and_unknown_tokens_become_replacement_characters():
    table = PieceTable(EURO)
    assert table.text([2]) == "\ufffd"
    assert table.text([3, 99, 3]) == "!\ufffd!"
    assert table.piece(99) is None


def test_a_newer_piece_replaces_the_older_one():
    table = PieceTable({1: b"a"})
    table.add({1: b"b", 0: b"c"})
    assert table.items() == [(0, b"c"), (1, b"b")]
    assert len(table) == 2


def test_a_decoder_gives_a_character_with_the_token_that_completes_it():
    decoder = PieceTable(EURO).decoder()
    assert [decoder.decode(token) for token in (3, 1, 2, 3)] == ["!", "", "€", "!"]


def test_a_stream_that_ends_inside_a_character_says_so_once():
    decoder = PieceTable(EURO).decoder()
    decoder.decode(1)
    assert decoder.finish() == "\ufffd"
    assert decoder.finish() == ""
    assert decoder.decode(3) == "!"


def test_a_branch_goes_on_from_the_same_place_and_leaves_the_stream_alone():
    decoder = PieceTable(EURO).decoder()
    decoder.decode(1)
    branch = decoder.branch()
    assert branch.decode(3) == "\ufffd!"
    assert decoder.decode(2) == "€"


@given(text=st.text(max_size=30), cuts=st.lists(st.integers(0, 100), max_size=8))
def test_any_cut_of_any_text_decodes_to_that_text(text, cuts):
    data = text.encode()
    places = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    pieces = [data[a:b] for a, b in itertools.pairwise(places)]
    table = PieceTable(dict(enumerate(pieces)))
    decoder = table.decoder()
    assert "".join(decoder.decode(token) for token in range(len(pieces))) + decoder.finish() == text
    assert table.text(range(len(pieces))) == text
