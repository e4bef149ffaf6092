"""Growing arrays and their views."""

import numpy as np
import pytest

from draftscope.trace.growable import GrowableArray


def test_appended_parts_come_back_in_order():
    array = GrowableArray(np.int32)
    for start in range(0, 5000, 7):
        array.append(np.arange(start, start + 7))
    assert np.array_equal(array.view, np.arange(len(array)))


def test_a_view_taken_before_growth_or_clearing_does_not_change():
    array = GrowableArray(np.int64)
    array.append([1, 2, 3])
    view = array.view
    array.append(np.zeros(100_000))
    array.clear()
    array.append([9, 9, 9])
    assert view.tolist() == [1, 2, 3]


def test_a_view_cannot_be_written():
    array = GrowableArray(np.int64)
    array.append([1])
    with pytest.raises(ValueError, match="read-only"):
        array.view[0] = 2


def test_a_replaced_tail_leaves_older_views_alone():
    array = GrowableArray(np.int64)
    array.append([1, 2, 5, 6])
    view = array.view
    array.replace_tail(2, [3, 4, 5, 6])
    assert view.tolist() == [1, 2, 5, 6]
    assert array.view.tolist() == [1, 2, 3, 4, 5, 6]


def test_the_memory_doubles_so_that_appending_stays_cheap():
    array = GrowableArray(np.int8)
    memories = set()
    for _ in range(10_000):
        array.append([0])
        memories.add(array.view.__array_interface__["data"][0])
    assert len(memories) < 12
