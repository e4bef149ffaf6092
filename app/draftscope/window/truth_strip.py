"""The strip at the bottom: what the engine does, and what the tool measures about itself."""

from __future__ import annotations

import math
import time
from pathlib import Path

from PySide6.QtGui import QFont
from PySide6.QtWidgets import QLabel, QStatusBar

from draftscope.base import units
from draftscope.engine.events import Kind
from draftscope.engine.probes import Fault
from draftscope.panels.tips import plain_tip
from draftscope.session.session import Session
from draftscope.session.shown_run import ShownRun
from draftscope.session.state import SessionState
from draftscope.trace.probe_words import fault_sentence

REFRESH_NS = 200_000_000
"""Figures change five times a second at most: faster cannot be read."""

SILENT_S = 2.0
"""An engine at work that shows no sign of life for so long is said to be silent."""

OVERHEAD_MEANS = (
    "Records that came from the engine in this run; those lost because the ring was full; the share of the last second"
    " that this window spent receiving and drawing; and the mean time of drawing all panels once."
)


class TruthStrip(QStatusBar):
    """Left: state, rounds, speed. Right: an active fault, what is recorded; records, dropped, overhead, draw time."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._shown: ShownRun = session
        self._told_ns = 0
        self._doing = QLabel()
        self._recording = QLabel()
        self._fault = QLabel()
        self._measured = QLabel()
        self.setSizeGripEnabled(False)
        self._doing.setAccessibleName("What the engine does")
        self._recording.setAccessibleName("What is recorded")
        self._measured.setAccessibleName("What the tool measures about itself")
        self._measured.setToolTip(OVERHEAD_MEANS)
        self._fault.setProperty("tone", "warn")
        self._fault.setAccessibleName("The fault that is injected on purpose")
        for label in (self._doing, self._fault, self._recording, self._measured):
            font = label.font()
            font.setFeature(QFont.Tag("tnum"), 1)
            label.setFont(font)
        self.addWidget(self._doing, 1)
        self.addPermanentWidget(self._fault)
        self.addPermanentWidget(self._recording)
        self.addPermanentWidget(self._measured)
        session.recorder.changed.connect(self.tell)
        session.state_changed.connect(self.tell)
        self.tell()

    def tick(self) -> None:
        """Bring the figures up to date if it is time."""
        if time.monotonic_ns() - self._told_ns >= REFRESH_NS:
            self.tell()

    def show_run(self, run: ShownRun) -> None:
        """Tell of this run from now on."""
        self._shown = run
        self.tell()

    def tell(self) -> None:
        """Bring the figures up to date now."""
        self._told_ns = time.monotonic_ns()
        _set(self._doing, doing(self._shown))
        _set(self._measured, measured(self._shown))
        _set(self._recording, recording(self._session) if self._shown is self._session else "")
        self._recording.setToolTip(plain_tip(recording_place(self._session)))
        self._recording.setVisible(bool(self._recording.text()))
        probing = self._session.probing
        _set(self._fault, fault_words(probing.fault, probing.fault_slot))
        self._fault.setToolTip(
            fault_sentence(probing.fault, probing.fault_slot, probing.fault_level) if self._fault.text() else ""
        )
        self._fault.setVisible(bool(self._fault.text()))


def doing(session: ShownRun) -> str:
    """State, rounds and speed in words."""
    parts = [_state(session) if isinstance(session, Session) else _saved(session)]
    rounds = session.trace.kind(Kind.ROUND)
    if len(rounds):
        n_rounds = int(rounds["round"][-1]) + 1
        parts.append("1 round" if n_rounds == 1 else f"{n_rounds:,} rounds")
    total = session.acceptance.total()
    if not math.isnan(total.tokens_per_second):
        n_slots = len(session.trace.slots())
        parts.append(f"{units.rate(total.tokens_per_second)} over {n_slots} {'slot' if n_slots == 1 else 'slots'}")
    return " · ".join(parts)


def _saved(run: ShownRun) -> str:
    name = "" if run.model is None else f" of {Path(run.model.path).name}"
    return f"saved trace{name}, still being recorded" if run.is_running else f"saved trace{name}"


def _state(session: Session) -> str:
    silence_s = session.silence_s
    if session.state.is_busy and silence_s > SILENT_S:
        operation = session.operation
        last = f", last seen doing: {operation}" if operation else ""
        return f"{session.state.value}, engine silent for {silence_s:.0f} s{last}"
    if session.state is SessionState.LOADING:
        fraction, stage = session.progress
        return f"loading {stage} {fraction * 100:.0f} %"
    if session.model is not None and session.state is SessionState.READY:
        return f"ready · {Path(session.model.path).name}"
    return str(session.state.value)


def recording(session: Session) -> str:
    """Whether the run that is here is recorded, in words; '' where this session never records."""
    recorder = session.recorder
    if recorder.recordings is None:
        return ""
    if recorder.problem:
        return "recording failed"
    if recorder.path is None:
        return "recording is off" if not recorder.is_on else ""
    return "recording" if session.is_running else "recorded"


def recording_place(session: Session) -> str:
    """Where it is recorded, or why it is not."""
    recorder = session.recorder
    if recorder.problem or recorder.path is None:
        return recorder.problem or "Runs are recorded when that is switched on under Recordings."
    return f"This run is in {recorder.path}"


def fault_words(fault: Fault, slot: int | None) -> str:
    """The fault that is active in a few words; '' where none is."""
    if fault is Fault.NONE:
        return ""
    return f"FAULT{'' if slot is None else f' in slot {slot}'}: {fault.value.replace('_', ' ')}"


def measured(session: ShownRun) -> str:
    """What the tool measures about itself, in words."""
    meter = session.meter
    draw_ms = sum(meter.draw_ms.values())
    if session.state is SessionState.SAVED:
        return f"records {meter.n_records:,} · missing {meter.n_dropped:,} · draw {draw_ms:.1f} ms"
    lost = f" · arrays lost {session.n_arrays_lost:,}" if session.n_arrays_lost else ""
    return (
        f"records {meter.n_records:,} · dropped {meter.n_dropped:,}{lost} · overhead {meter.overhead * 100:.1f} %"
        f" · draw {draw_ms:.1f} ms"
    )


def _set(label: QLabel, text: str) -> None:
    if label.text() != text:
        label.setText(text)
