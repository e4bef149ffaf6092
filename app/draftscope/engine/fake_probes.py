"""What the scripted engine was told to measure and to do wrong, by slot; and the probes that it makes by script.

The rows, logits and states are made up, but they hang together: a fault changes what it should and nothing else, the
draft from the restored row is the one that is drafted next, and what is accepted of it is what the text goes on with.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.events import Mechanism, Phase
from draftscope.engine.fake_costs import STATE_BYTES
from draftscope.engine.fake_record import FakeRecorder
from draftscope.engine.fake_rows import (
    N_RECURRENT_LAYERS,
    compare,
    distribution,
    divergence,
    fingerprints_of,
    layers_after,
    listed_tokens,
    row_of,
)
from draftscope.engine.fake_slot import FakeSlot
from draftscope.engine.fake_text import N_VOCAB
from draftscope.engine.probes import (
    FAULTS,
    LEVELS,
    RESTORED,
    SAVED,
    WITHOUT,
    ZERO_ROW,
    ArrayKind,
    Fault,
    ProbeLevel,
    RestoreKind,
    StateStatus,
    empty_probes,
)
from draftscope.engine.protocol import ModelReport
from draftscope.engine.task_checks import MOST_SLOTS

_STALE_BY = 4
"""Positions by which a stale row is too old."""

_BEHIND_BY = 3
"""Positions that a companion left behind lacks, or has wrong rows in."""

_NAMES = {RESTORED: "restored", WITHOUT: "without"}
_SHARES = {ProbeLevel.HIDDEN: 0.002, ProbeLevel.LOGITS: 0.02, ProbeLevel.STATE: 0.03}
"""Parts of a round's time that a probe takes."""

UNKNOWN_LAYOUT = "fake:unknown-layout"
"""The model whose recurrent state nobody can read."""


class FakeProbes:
    """Levels and faults of all slots that an engine may have, and what happens at a restore because of them."""

    def __init__(self, recorder: FakeRecorder, unit_ns: int) -> None:
        self.levels = [ProbeLevel.OFF] * MOST_SLOTS
        self.faults = [Fault.NONE] * MOST_SLOTS
        self.layer = -1
        self._recorder = recorder
        self._unit_ns = unit_ns
        self._width = self._n_draft = 1
        self._state = StateStatus.EQUAL

    def set_level(self, level: ProbeLevel, slots: tuple[int, ...]) -> None:
        """Measure at this level in these slots; empty: in all."""
        for slot in slots or range(MOST_SLOTS):
            self.levels[slot] = level

    def set_fault(self, fault: Fault, slots: tuple[int, ...], layer: int) -> None:
        """Do this wrong in these slots; empty: in all."""
        self.layer = layer
        for slot in slots or range(MOST_SLOTS):
            self.faults[slot] = fault

    def begin(self, report: ModelReport) -> None:
        """New contexts: do everything right again."""
        self.set_fault(Fault.NONE, (), -1)
        self._width, self._n_draft = report.n_embd, report.speculation.n_draft_max
        is_readable = StateStatus.UNKNOWN_LAYOUT if report.path == UNKNOWN_LAYOUT else StateStatus.EQUAL
        self._state = is_readable if report.is_recurrent else StateStatus.NO_RECURRENT_LAYERS

    def draft_begins(self, slot: FakeSlot) -> None:
        """A probed slot drafts: say from whose position's row."""
        if self.levels[slot.id] is not ProbeLevel.OFF and self._n_draft:
            expected = len(slot.tokens) - 2
            found = expected if slot.row_in_use is None else slot.row_in_use
            self._recorder.row(slot.id, FAULTS.index(self.faults[slot.id]), expected, found, slot.n_rows_waiting)

    def restored(
        self, slot: FakeSlot, kind: RestoreKind, mechanism: Mechanism, n_replay: int, row: int, without: int
    ) -> None:
        """A state was put back: let the fault act, then measure.

        Args:
            row: position that the pending row belongs to.
            without: position whose row would be there without the hook.
        """
        if self._n_draft == 0:
            return
        fault = self.faults[slot.id]
        wrong = {Fault.OMIT_HOOK: without, Fault.ZERO_ROW: ZERO_ROW, Fault.STALE_ROW: max(row - _STALE_BY, 0)}
        slot.row_in_use = wrong.get(fault)
        slot.is_companion_behind = fault is Fault.COMPANION_BEHIND
        level = self.levels[slot.id]
        if level is ProbeLevel.OFF:
            return
        start_ns = self._recorder.now_ns
        self._recorder.operation(Phase.PROBE)
        self._recorder.now_ns += int(self._unit_ns * _SHARES[level])
        if level is not ProbeLevel.HIDDEN:  # which takes too little time for a span
            self._recorder.span(Phase.PROBE, slot.id, start_ns, slot.n_decoded, 0, 0)
        result = empty_probes(1)
        probe = result[0]
        probe["t_start_ns"], probe["duration_ns"] = start_ns, self._recorder.now_ns - start_ns
        probe["round"], probe["slot"] = self._recorder.round, slot.id
        probe["kind"], probe["mechanism"] = kind, mechanism
        probe["level"], probe["fault"] = LEVELS.index(level), FAULTS.index(fault)
        probe["position"], probe["n_replay"], probe["row_position"] = slot.n_decoded, n_replay, row
        self._compare_rows(probe, slot, row, without)
        if level is not ProbeLevel.HIDDEN and kind is RestoreKind.REJECTION:
            self._draft_from_each(probe, slot, row, without)
        if level is ProbeLevel.STATE:
            self._compare_states(probe, fault)
        self._recorder.array(start_ns, ArrayKind.RESULT, result)

    def _compare_rows(self, probe: Any, slot: FakeSlot, row: int, without: int) -> None:
        found = row if slot.row_in_use is None else slot.row_in_use
        rows = np.stack([row_of(slot.id, position, self._width) for position in (row, found, without)])
        for which, position in ((RESTORED, found), (WITHOUT, without)):
            name, compared = _NAMES[which], compare(rows[SAVED], rows[which])
            probe[f"{name}_position"], probe[f"{name}_n_differing"] = position, compared.n_differing
            probe[f"{name}_max_abs"], probe[f"{name}_rms"] = compared.max_abs, compared.rms
            probe[f"{name}_cosine"], probe[f"{name}_worst"] = compared.cosine, compared.worst
        probe["row_width"] = self._width
        probe["companion_expected"] = row + 1
        self._compare_companion(probe, slot, row)
        self._array(probe, ArrayKind.ROWS, rows)
        self._array(probe, ArrayKind.FINGERPRINTS, fingerprints_of(slot.id, max(row, without)))

    def _compare_companion(self, probe: Any, slot: FakeSlot, row: int) -> None:
        """Left behind after a rejection it keeps rows of its own; after another restore it lacks what came before."""
        is_rejection = probe["kind"] == RestoreKind.REJECTION
        lacks = min(_BEHIND_BY, row) if slot.is_companion_behind else 0
        probe["companion_n"] = row + 1 - (0 if is_rejection else lacks)
        probe["companion_n_wrong"] = lacks if is_rejection else 0
        probe["companion_first_wrong"] = row + 1 - lacks if is_rejection and lacks else -1

    def _draft_from_each(self, probe: Any, slot: FakeSlot, row: int, without: int) -> None:
        behind = slot.is_companion_behind
        found = row if slot.row_in_use is None else slot.row_in_use
        positions = (row, found, without)
        drafts = [slot.foresee(self._n_draft, behind or position != row) for position in positions]
        text = [slot.due(ahead) for ahead in range(self._n_draft)]
        tokens = np.array([[token for token, _ in draft] for draft in drafts], np.int32)
        tops = tuple(draft[0] for draft in drafts)
        listed = listed_tokens((slot.id, row), tuple(token for token, _ in tops))
        likely = [distribution((slot.id, at), listed, *top) for at, top in zip(positions, tops, strict=True)]
        probe["n_vocab"], probe["n_draft"], probe["n_followed"] = N_VOCAB, self._n_draft, self._n_draft
        for which, name in ((SAVED, "saved"), *_NAMES.items()):
            probe[f"{name}_top"], probe[f"{name}_top_p"] = tops[which]
            probe[f"{name}_accepted"] = _n_equal(tokens[which].tolist(), text)
        for which, name in _NAMES.items():
            difference = np.abs(likely[SAVED].logits - likely[which].logits)
            probe[f"{name}_n_changed"] = N_VOCAB if positions[which] != row else 0
            probe[f"{name}_logit_max_abs"] = difference.max()
            probe[f"{name}_kl"] = divergence(likely[SAVED], likely[which])
            probe[f"{name}_n_same"] = _n_equal(tokens[which].tolist(), tokens[SAVED].tolist())
        self._array(probe, ArrayKind.DRAFT_TOKENS, tokens)
        self._array(probe, ArrayKind.TOP_TOKENS, listed)
        self._array(probe, ArrayKind.TOP_LOGITS, np.stack([each.logits for each in likely]))
        self._array(probe, ArrayKind.TOP_PROBABILITIES, np.stack([each.probabilities for each in likely]))

    def _compare_states(self, probe: Any, fault: Fault) -> None:
        has_reference = probe["kind"] != RestoreKind.SLOT
        probe["state_status"] = self._state if has_reference else StateStatus.NO_REFERENCE
        if self._state is not StateStatus.EQUAL or not has_reference:
            return
        skipped = self.layer % N_RECURRENT_LAYERS if fault is Fault.SKIP_LAYER else None
        layers = layers_after(skipped, int(probe["position"]))
        probe["state_bytes"], probe["n_layers"] = STATE_BYTES, N_RECURRENT_LAYERS
        probe["n_layers_differing"] = np.count_nonzero(layers[:, :, 0].any(axis=1))
        probe["state_max_abs"], probe["state_rms"] = layers[:, :, 0].max(), np.sqrt(np.mean(layers[:, :, 1] ** 2))
        if skipped is not None:
            probe["state_status"], probe["worst_layer"] = StateStatus.DIFFERS, skipped
            probe["worst_part"] = layers[skipped, :, 0].argmax()
        self._array(probe, ArrayKind.LAYERS, layers)

    def _array(self, probe: Any, kind: ArrayKind, values: NDArray[Any]) -> None:
        self._recorder.array(int(probe["t_start_ns"]), kind, values)


def _n_equal(tokens: list[int], others: list[int]) -> int:
    """Tokens before the first that differs."""
    pairs = enumerate(zip(tokens, others, strict=True))
    return next((index for index, (token, other) in pairs if token != other), len(tokens))
