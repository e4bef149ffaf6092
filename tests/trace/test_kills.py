"""Ten kills at random moments: every file opens, and no more than a tenth of a second is missing."""

import os
import random

import pytest

from tests.trace.kills import LIMIT_MS, kill_once

ORDER = ("window", "engine", "window", "engine", "start")


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs memory that outlives the process")
@pytest.mark.parametrize("number", range(10))
def test_a_kill_costs_a_tenth_of_a_second_at_most_and_every_file_opens(number):
    kill = kill_once(ORDER[number % len(ORDER)], random.Random(number), "fake:400", "fake:model")
    assert kill.problems == []
    assert kill.loss_ms <= LIMIT_MS
    assert kill.n_files > 0 or kill.who == "start"
