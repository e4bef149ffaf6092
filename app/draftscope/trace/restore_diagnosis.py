"""What is wrong with the restores of a run, named by what probes measured and by nothing else.

Each verdict that is a difference has one cause among the things that a driver can do wrong; the cause that explains
most restores is the diagnosis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.probes import FAULTS, Fault, Probes
from draftscope.trace.restore_verdict import Verdict, findings_of, verdicts_of


class Diagnosis(NamedTuple):
    """A cause, the restores that it explains, how many were probed, and the words for it."""

    cause: Fault
    n: int
    n_probed: int
    words: str


_CAUSES: dict[Fault, str] = {
    Fault.OMIT_HOOK: "the hidden row is not put back: drafting goes on from the row that was there before the restore",
    Fault.ZERO_ROW: "the hidden row is zero after a restore",
    Fault.STALE_ROW: "a hidden row of another moment is put back",
    Fault.SKIP_LAYER: "the recurrent state is not put back whole",
    Fault.COMPANION_BEHIND: "the MTP context does not follow: positions are missing or come from other tokens or rows",
}


def causes_of(probes: Probes) -> NDArray[np.uint8]:
    """The number of the ``Fault`` that each probe looks like: uint8 (P,), 0 where nothing differs."""
    verdicts, causes = verdicts_of(probes), np.zeros(len(probes), np.uint8)
    is_row = np.isin(verdicts, (Verdict.ROW_OF_OTHER_POSITION, Verdict.ROW_UNKNOWN, Verdict.ROW_ZERO))
    rules: tuple[tuple[Fault, Callable[[], NDArray[np.bool_]]], ...] = (
        (Fault.STALE_ROW, lambda: is_row),
        (Fault.ZERO_ROW, lambda: verdicts == Verdict.ROW_ZERO),
        (Fault.OMIT_HOOK, lambda: is_row & _is_as_without(probes)),
        (Fault.SKIP_LAYER, lambda: verdicts == Verdict.STATE_DIFFERS),
        (Fault.COMPANION_BEHIND, lambda: np.isin(verdicts, (Verdict.COMPANION_LENGTH, Verdict.COMPANION_WRONG))),
    )
    for cause, holds in rules:
        causes[holds()] = FAULTS.index(cause)
    return causes


def _is_as_without(probes: Probes) -> NDArray[np.bool_]:
    """Whether the row in use is the one that would be there without the hook, by all that is known of both.

    Of a row that was saved wrong this says nothing: it is in use with the hook.
    """
    is_same = probes["restored_n_differing"] > 0
    for name in ("position", "n_differing", "max_abs", "rms", "worst"):
        is_same &= probes[f"restored_{name}"] == probes[f"without_{name}"]
    return is_same


def diagnose(probes: Probes) -> Diagnosis | None:
    """The cause that explains most of the probes with a difference; None where nothing differs."""
    counts = np.bincount(causes_of(probes), minlength=len(Fault))
    counts[0] = 0
    if not counts.any():
        return None
    cause = FAULTS[int(counts.argmax())]
    example = next(_example(probe) for probe in probes[causes_of(probes) == FAULTS.index(cause)])
    return Diagnosis(cause, int(counts.max()), len(probes), f"{_CAUSES[cause]} ({example})")


def _example(probe: Any) -> str:
    return findings_of(probe)[0].words
