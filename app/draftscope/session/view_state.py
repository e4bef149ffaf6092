"""What all panels share about how they look at the run: selection, time range and crosshair."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal


class ViewState(QObject):
    """Selection shared by the panels. A setter emits its signal only when the value changes; signals carry nothing."""

    selected_round_changed = Signal()
    selected_slot_changed = Signal()
    time_range_changed = Signal()
    crosshair_changed = Signal()
    show_rejected_changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._selected_round: int | None = None
        self._selected_slot: int | None = None
        self._time_range_ns: tuple[int, int] | None = None
        self._crosshair_ns: int | None = None
        self._show_rejected = True

    @property
    def selected_round(self) -> int | None:
        """The round that every panel marks, or None."""
        return self._selected_round

    @property
    def selected_slot(self) -> int | None:
        """The slot that the selection is about, or None for all."""
        return self._selected_slot

    @property
    def time_range_ns(self) -> tuple[int, int] | None:
        """Start and end of the time in view, on the records' clock; None before anybody chose one."""
        return self._time_range_ns

    @property
    def crosshair_ns(self) -> int | None:
        """The time under the pointer, or None when it is over no plot."""
        return self._crosshair_ns

    @property
    def show_rejected(self) -> bool:
        """Whether rejected draft tokens are shown."""
        return self._show_rejected

    def select_round(self, round_id: int | None) -> None:
        """Select a round, or none."""
        if round_id != self._selected_round:
            self._selected_round = round_id
            self.selected_round_changed.emit()

    def select_slot(self, slot: int | None) -> None:
        """Select a slot, or none."""
        if slot != self._selected_slot:
            self._selected_slot = slot
            self.selected_slot_changed.emit()

    def set_time_range(self, limits_ns: tuple[int, int] | None) -> None:
        """Share the time in view; start before end."""
        if limits_ns != self._time_range_ns:
            self._time_range_ns = limits_ns
            self.time_range_changed.emit()

    def set_crosshair(self, t_ns: int | None) -> None:
        """Share the time under the pointer."""
        if t_ns != self._crosshair_ns:
            self._crosshair_ns = t_ns
            self.crosshair_changed.emit()

    def set_show_rejected(self, shows: bool) -> None:
        """Show or hide rejected draft tokens."""
        if shows != self._show_rejected:
            self._show_rejected = shows
            self.show_rejected_changed.emit()

    def reset(self) -> None:
        """Forget selection, time range and crosshair, for a new run; what is shown or hidden stays."""
        self.select_round(None)
        self.select_slot(None)
        self.set_time_range(None)
        self.set_crosshair(None)
