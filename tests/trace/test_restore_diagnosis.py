"""What is wrong with restores is named by what was measured of them, and by nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from draftscope.engine.probes import Fault, Probes, StateStatus, empty_probes
from draftscope.trace.restore_diagnosis import causes_of, diagnose


def probes(n: int = 10, **figures: object) -> Probes:
    """Restores that were right, but for these figures; the row without the hook is another one."""
    made = empty_probes(n)
    right = {"row_position": 20, "restored_position": 20, "restored_n_differing": 0, "restored_max_abs": 0.0}
    right |= {"restored_rms": 0.0, "row_width": 64, "companion_n": 21, "companion_expected": 21, "companion_n_wrong": 0}
    without = {"without_position": 23, "without_n_differing": 64, "without_max_abs": 3.0, "without_rms": 1.0}
    for name, value in (right | without | {"without_worst": 5} | figures).items():
        made[name] = value
    return made


AS_WITHOUT = {
    "restored_position": 23,
    "restored_n_differing": 64,
    "restored_max_abs": 3.0,
    "restored_rms": 1.0,
    "restored_worst": 5,
}


@pytest.mark.parametrize(
    ("figures", "cause"),
    [
        (AS_WITHOUT, Fault.OMIT_HOOK),
        (AS_WITHOUT | {"restored_position": -2}, Fault.ZERO_ROW),
        ({"restored_position": -2, "without_position": -2, "without_n_differing": 0}, Fault.ZERO_ROW),  # saved so
        ({"restored_position": 17}, Fault.STALE_ROW),  # saved so
        (AS_WITHOUT | {"restored_position": 17, "restored_max_abs": 2.0}, Fault.STALE_ROW),
        (AS_WITHOUT | {"restored_position": -1, "restored_max_abs": 2.0}, Fault.STALE_ROW),
        ({"state_status": StateStatus.DIFFERS, "worst_layer": 2, "n_layers": 6}, Fault.SKIP_LAYER),
        ({"companion_n": 19}, Fault.COMPANION_BEHIND),
        ({"companion_n_wrong": 2, "companion_first_wrong": 18}, Fault.COMPANION_BEHIND),
    ],
)
def test_that_each_fault_is_named_by_what_it_leaves(figures: dict[str, object], cause: Fault) -> None:
    assert set(causes_of(probes(**figures)).tolist()) == {list(Fault).index(cause)}
    found = diagnose(np.concatenate([probes(5), probes(10, **figures)]))
    assert found is not None
    assert (found.cause, found.n, found.n_probed) == (cause, 10, 15)
    assert found.words


def test_that_nothing_is_named_where_nothing_differs() -> None:
    assert diagnose(probes()) is None
    assert diagnose(empty_probes(3)) is None
    assert diagnose(empty_probes()) is None


def test_that_the_cause_of_most_restores_is_the_diagnosis() -> None:
    found = diagnose(np.concatenate([probes(3, companion_n=19), probes(4, **AS_WITHOUT)]))
    assert found is not None
    assert (found.cause, found.n) == (Fault.OMIT_HOOK, 4)
