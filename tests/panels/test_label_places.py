"""Labels beside each other."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from draftscope.panels.label_places import spread


def test_labels_with_room_stay_where_they_are() -> None:
    assert spread([10, 50, 90], 12, 0, 100) == [10, 50, 90]


def test_labels_that_collide_move_apart_about_their_mean() -> None:
    assert spread([50, 52], 12, 0, 100) == [45, 57]


def test_the_order_given_is_kept_in_the_result() -> None:
    assert spread([52, 50], 12, 0, 100) == [57, 45]


def test_labels_at_the_edge_stay_inside() -> None:
    assert spread([0, 1], 12, 0, 100) == [0, 12]
    assert spread([99, 100], 12, 0, 100) == [88, 100]


@given(st.lists(st.floats(-50, 150), min_size=1, max_size=8))
def test_labels_never_overlap_and_never_leave(wanted: list[float]) -> None:
    places = spread(wanted, 12, 0, 100)
    ordered = sorted(places)
    assert all(b - a >= 12 - 1e-6 for a, b in itertools.pairwise(ordered))
    assert min(places) >= -1e-6
    assert max(places) <= 100 + 1e-6


def test_too_many_labels_share_the_room() -> None:
    assert spread([5, 5, 5], 40, 0, 60) == [0, 30, 60]
