"""Opens a run of so many records in the panels, offscreen, and prints what that costs as JSON; used by ``view``."""

from __future__ import annotations

import gc
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication, QWidget

from draftscope.base.theme import THEMES
from draftscope.panels.acceptance import AcceptancePanel
from draftscope.panels.checkpoints import CheckpointsPanel
from draftscope.panels.output import OutputPanel
from draftscope.panels.panel import Panel
from draftscope.panels.timeline import TimelinePanel
from draftscope.trace.export.formats import FORMATS, export_trace
from draftscope.trace.pieces import PieceTable
from draftscope.trace.store import TraceStore
from draftscope.trace.trace import Trace
from draftscope.trace.tracefile import TraceWriter, read_trace
from tests.panels.made_session import MadeSession, made_model
from tests.trace.synthetic import PIECES, make_many

SIZE = (1200, 500)
CHUNK = 20_000
"""Records that come at once, as from a file."""

N_STEPS = 40
_PAGE_KIB = resource.getpagesize() // 1024


def main() -> None:
    """Measure and print."""
    records = make_many(int(sys.argv[1]))
    n_bytes = records.nbytes
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.dscope"
        with TraceWriter(path, {}) as writer:
            for start in range(0, len(records), CHUNK):
                writer.append(records[start : start + CHUNK])
            writer.add_pieces(PIECES)
        memory = {"memory of the store": _memory_of(records) / n_bytes}
        app = QApplication([])
        seconds = {"receive to first picture": _first_picture(app, lambda session: _receive(session, records))}
        seconds["open a file to first picture"] = _first_picture(app, lambda session: _open(session, path))
        session = MadeSession()
        _ready(session)
        before = _resident_kib()
        _receive(session, records)
        panels = _panels(session)
        frames = {panel.title: _p95_ms(app, panel) for panel in panels if not isinstance(panel, OutputPanel)}
        memory["memory of store, tables and plots"] = (_resident_kib() - before) * 1024 / n_bytes
        frames["Output, while its tokens come"] = _p95_of_output_ms(app, panels[0])
        memory["the same, and all texts laid out"] = (_resident_kib() - before) * 1024 / n_bytes
        exports = {form: seconds_ / len(records) * 1e6 for form, seconds_ in _exports(records, Path(folder))}
    print(json.dumps({"seconds": seconds, "frames_ms": frames, "memory": memory, "exports_s": exports}))


def _resident_kib() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_KIB


def _memory_of(records: np.ndarray) -> float:  # type: ignore[type-arg]
    """Bytes that a store takes for the records, beside the records themselves."""
    before = _resident_kib()
    store = TraceStore()
    for start in range(0, len(records), CHUNK):
        store.append(records[start : start + CHUNK])
    grown = (_resident_kib() - before) * 1024.0
    assert store.n_records == len(records)
    return grown


def _ready(session: MadeSession) -> None:
    session.pieces.add(PIECES)
    session.take_model(made_model())
    session.begin_run(4)


def _receive(session: MadeSession, records: np.ndarray) -> None:  # type: ignore[type-arg]
    for start in range(0, len(records), CHUNK):
        session.receive(records[start : start + CHUNK].copy())
    session.end_run()


def _open(session: MadeSession, path: Path) -> None:
    trace = read_trace(path)
    session.trace.take_over(trace.store)
    session.acceptance.update(session.trace)
    session.end_run()


def _panels(session: MadeSession) -> list[Panel]:
    theme = THEMES[0]
    kinds = (OutputPanel, TimelinePanel, AcceptancePanel, CheckpointsPanel)
    panels: list[Panel] = [kind(session, theme) for kind in kinds]  # type: ignore[arg-type]
    for panel in panels:
        panel.resize(*SIZE)
        panel.show()
        panel.refresh()
    return panels


def _first_picture(app: QApplication, fill: Callable[[MadeSession], object]) -> float:
    """Seconds until all panels are painted."""
    session = MadeSession()
    _ready(session)
    started = time.perf_counter()
    fill(session)
    panels = _panels(session)
    app.processEvents()
    seconds = time.perf_counter() - started
    for panel in panels:
        panel.close()
        panel.deleteLater()
    return seconds


def _p95_ms(app: QApplication, panel: Panel) -> float:
    """Of frames in which the reader zooms in and out at several places and pans at every scale."""
    app.processEvents()
    frames = []
    for step in _steps(panel):
        started = time.thread_time()
        step()
        if panel.is_stale:
            panel.refresh()
        app.processEvents()
        frames.append((time.thread_time() - started) * 1e3)
    return float(np.percentile(frames, 95))


def _p95_of_output_ms(app: QApplication, panel: Panel) -> float:
    """Of the frames in which the tokens of the run are laid out."""
    frames = []
    while panel.is_stale:
        started = time.thread_time()
        panel.refresh()
        app.processEvents()
        frames.append((time.thread_time() - started) * 1e3)
    return float(np.percentile(frames, 95))


def _steps(panel: Panel) -> Iterator[Callable[[], object]]:
    if isinstance(panel, TimelinePanel):
        panel.lanes.fit()
        area: QWidget = panel.lanes
    else:
        plot = panel.over_rounds if isinstance(panel, AcceptancePanel) else panel.times.plot  # type: ignore[attr-defined]
        area = plot.viewport()
    for x in (0.3, 0.7):
        place = QPointF(area.width() * x, area.height() * 0.5)
        for delta in (120, -120):
            for step in range(N_STEPS):
                yield lambda place=place, delta=delta: _wheel(area, place, delta)  # type: ignore[misc]
                if step % 4 == 0:
                    yield lambda step=step: _pan(panel, 37 if step % 8 else -53)  # type: ignore[misc]


def _wheel(area: QWidget, place: QPointF, delta: int) -> None:
    event = QWheelEvent(
        place,
        QPointF(area.mapToGlobal(place.toPoint())),
        QPoint(),
        QPoint(0, delta),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(area, event)


def _pan(panel: Panel, pixels: int) -> None:
    if isinstance(panel, TimelinePanel):
        panel.lanes._pan(pixels)
        return
    plot = panel.over_rounds if isinstance(panel, AcceptancePanel) else panel.times.plot  # type: ignore[attr-defined]
    plot.view.translateBy(x=-pixels * plot.view.viewPixelSize()[0])


def _exports(records: np.ndarray, folder: Path) -> Iterator[tuple[str, float]]:  # type: ignore[type-arg]
    store = TraceStore()
    store.append(records)
    trace = Trace({}, store, PieceTable(PIECES), [])
    for one in FORMATS:
        if one.id == "npz":
            continue  # holds what probes measured, which does not grow with the records
        started = time.process_time()
        export_trace(one.id, trace, folder / f"out.{one.id}")
        yield one.id, time.process_time() - started


if __name__ == "__main__":
    main()
