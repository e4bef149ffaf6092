"""Pages on one restore that are made of several parts: the rows, the heat map over restores, the drafts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QLabel, QScrollArea, QVBoxLayout, QWidget

from draftscope.base.theme import Theme
from draftscope.engine.probes import RESTORED, SAVED, WITHOUT, ArrayKind
from draftscope.panels.difference_map import DifferenceMap, MapRow, by_column
from draftscope.panels.draft_bars import COLUMNS, DraftBars, TokenShare
from draftscope.panels.fingerprint_strip import FingerprintStrip
from draftscope.panels.fonts import figure_font
from draftscope.panels.paint_clock import PaintClock
from draftscope.panels.restore_words import (
    Shown,
    token_text,
)
from draftscope.panels.row_plot import RowPlot
from draftscope.session.shown_run import ShownRun
from draftscope.trace.restore_verdict import effect_of
from draftscope.trace.restores import RestoreTable

_MOST_CACHED = 1_000
"""Restores whose line of the heat map is kept."""


class RowsPage(QWidget):
    """Fingerprints over the plot of the rows."""

    def __init__(self, theme: Theme, clock: PaintClock) -> None:
        super().__init__()
        self.strip = FingerprintStrip(theme, clock)
        self.plot = RowPlot(theme, clock)
        self.plot.setMinimumHeight(0)
        self.what = QComboBox()
        self.what.addItem("Differences")
        self.what.addItem("Rows")
        self.what.setAccessibleName("What the plot shows")
        self.what.setToolTip("Differences to the saved row, or the rows themselves")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(4, 2, 4, 2)
        layout.setSpacing(2)
        layout.addWidget(self.strip)
        layout.addWidget(self.plot, 1)

    def show_restore(self, session: ShownRun, shown: Shown) -> None:
        """Show this restore, whose rows are here."""
        rows = session.trace.array(shown.t_start_ns, ArrayKind.ROWS)
        prints = session.trace.array(shown.t_start_ns, ArrayKind.FINGERPRINTS)
        assert rows is not None
        assert shown.probe is not None
        names = ("row_position", "restored_position", "without_position")
        positions = (int(shown.probe[name]) for name in names)
        self.strip.show_rows(np.zeros((0, 2), np.int64) if prints is None else prints, *positions)
        if self.what.currentIndex() == 0:
            self.plot.show_differences(rows)
        else:
            self.plot.show_rows(rows)


class MapPage(QWidget):
    """The heat map, and which of two differences it shows."""

    def __init__(self, theme: Theme, clock: PaintClock) -> None:
        super().__init__()
        self.map = DifferenceMap(theme, clock)
        self.what = QComboBox()
        self.what.addItem("Restored", RESTORED)
        self.what.addItem("Without hook", WITHOUT)
        self.what.setAccessibleName("Which difference the map shows")
        self.what.setToolTip("Difference of the restored row to the saved one, or of the row without the hook")
        self._cache: dict[tuple[int, int, int], MapRow] = {}
        layout = QVBoxLayout(self)
        layout.setContentsMargins(4, 2, 4, 2)
        layout.setSpacing(2)
        layout.addWidget(self.map, 1)

    def show_restores(self, session: ShownRun, table: RestoreTable, places: NDArray[np.int64], shown: Shown) -> bool:
        """Show as many of these restores as fit, up to the chosen one or a little beyond; False where none has rows."""
        which, n_fit = int(self.what.currentData()), self.map.n_fit
        end = int(np.searchsorted(places, shown.place)) + 1 + n_fit // 4
        probed = places[:end][table.rows["probe"][places[:end]] >= 0]
        rows: list[MapRow] = []
        width = 0
        for place in probed[: -2 * n_fit - 1 : -1].tolist():  # some have no rows, because nothing was drafted
            row = self._row(session, table, place, which)
            if row is not None:
                rows.append(row)
                width = max(width, _width(table, place))
            if len(rows) == n_fit:
                break
        rows = [row for row in rows if len(row.differences) == len(rows[0].differences)]
        self.map.show_rows(tuple(rows[::-1]), width, shown.place)
        return bool(rows)

    def _row(self, session: ShownRun, table: RestoreTable, place: int, which: int) -> MapRow | None:
        probe = table.probe(place)
        if probe is None:
            return None
        key = (int(probe["t_start_ns"]), place, which)
        if key not in self._cache:
            rows = session.trace.array(key[0], ArrayKind.ROWS)
            if rows is None:
                return None
            row = table.rows[place]
            label = f"r {row['round']} s{row['slot']}" if row["round"] >= 0 else f"slot {row['slot']}"
            if len(self._cache) >= _MOST_CACHED:
                self._cache.clear()
            self._cache[key] = MapRow(place, label, by_column(rows[which] - rows[SAVED]))
        return self._cache[key]


def _width(table: RestoreTable, place: int) -> int:
    probe = table.probe(place)
    return 0 if probe is None else int(probe["row_width"])


class DraftPage(QScrollArea):
    """What a difference does to the draft in a sentence, the distributions, and the drafted tokens."""

    def __init__(self, theme: Theme, clock: PaintClock) -> None:
        super().__init__()
        self.effect = QLabel()
        self.bars = DraftBars(theme, clock)
        self.drafts = QLabel()
        content = QWidget()
        layout = QVBoxLayout(content)
        layout.setContentsMargins(2, 4, 2, 4)
        layout.setSpacing(4)
        for label in (self.effect, self.drafts):
            label.setWordWrap(True)
            label.setFont(figure_font(0.95))
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setContentsMargins(10, 0, 10, 0)
        layout.addWidget(self.effect)
        layout.addWidget(self.bars)
        layout.addWidget(self.drafts)
        layout.addStretch(1)
        self.setWidget(content)
        self.setWidgetResizable(True)
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.set_theme(theme)

    def show_restore(self, session: ShownRun, shown: Shown) -> None:
        """Show this restore, whose draft step was probed."""
        store, probe = session.trace, shown.probe
        tokens = store.array(shown.t_start_ns, ArrayKind.TOP_TOKENS)
        shares = store.array(shown.t_start_ns, ArrayKind.TOP_PROBABILITIES)
        drafts = store.array(shown.t_start_ns, ArrayKind.DRAFT_TOKENS)
        assert probe is not None
        assert tokens is not None
        words = effect_of(probe).words
        self.effect.setText(f"{words[0].upper()}{words[1:]}.")
        if shares is not None:
            columns = [tuple(column) for column in shares.T.tolist()]
            texts = [token_text(session.pieces, token) for token in tokens.tolist()]
            self.bars.show_tokens([TokenShare(text, column) for text, column in zip(texts, columns, strict=True)])
        names = zip(COLUMNS, ("saved", "restored", "without"), strict=True)
        lines = []
        for (name, which), draft in zip(names, () if drafts is None else drafts.tolist(), strict=False):
            accepted = int(probe[f"{which}_accepted"])
            said = f", {accepted} accepted" if accepted >= 0 else ""
            drafted = " ".join(token_text(session.pieces, token) for token in draft if token >= 0)
            lines.append(f"{name[0].upper()}{name[1:]}{said}: {drafted}")
        self.drafts.setText("\n".join(lines))

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self.bars.set_theme(theme)
        self.setStyleSheet(f"QScrollArea, QScrollArea > QWidget > QWidget {{ background: {theme.panel}; }}")
        self.effect.setStyleSheet(f"color: {theme.text}; background: transparent;")
        self.drafts.setStyleSheet(f"color: {theme.dim}; background: transparent;")
