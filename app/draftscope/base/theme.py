"""The colours of the program: one table of tokens for dark and one for light, and what is derived from them.

Colours are ``#rrggbb`` strings and nothing here knows Qt, so that exporters may use the same colours. Colour is for
data and never the only carrier of meaning: slots beyond the fourth repeat a colour with another dash and marker,
accepted tokens are underlined, rejected ones struck.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

MIN_TEXT_CONTRAST = 4.5
"""Least contrast of text against its surface (WCAG 2.1, AA)."""

PHASES = MappingProxyType(
    {
        "draft": "#7c8cf8",
        "save": "#e0a431",
        "verify": "#4da3ff",
        "accept": "#2bb58a",
        "restore": "#e8695a",
        "probe": "#b5c26a",
        "replay": "#b07aa1",
        "prompt": "#6b7485",
        "catch_up": "#5a63b8",
        "load": "#6b7485",
        "idle": "#6b7485",
    }
)
"""Colour of a phase by its name in lower case; the same in dark and light."""

DASHES: tuple[tuple[float, ...], ...] = ((), (5.0, 3.0), (1.0, 2.5), (7.0, 2.5, 1.0, 2.5))
"""Dash patterns in pen widths; () is a solid line. Slot n takes the pattern n // 4."""

MARKERS = ("o", "s", "t", "d", "+", "x", "p", "h")
"""Marker names as pyqtgraph has them. Slot n takes the marker n."""


@dataclass(frozen=True, slots=True)
class Theme:
    """The tokens of one look.

    Surfaces: ``window`` (behind everything), ``panel`` (docks, cards, plots), ``raised`` (bars, headers, menus).
    Text: ``text`` and ``dim`` on every surface. ``faint`` is for marks that are not text (grid, rests of a scale).
    ``on_accent`` is the text on a button filled with ``accent``.
    """

    name: str
    is_dark: bool
    window: str
    panel: str
    raised: str
    line: str
    text: str
    dim: str
    faint: str
    accent: str
    on_accent: str
    ok: str
    warn: str
    bad: str
    slots: tuple[str, ...]
    wash_strengths: tuple[float, ...]

    def slot(self, slot: int) -> str:
        """Colour of a slot's marks: lines, bars, chips."""
        return self.slots[slot % len(self.slots)]

    def slot_dash(self, slot: int) -> tuple[float, ...]:
        """Dash pattern of a slot's lines, in pen widths; () for a solid line."""
        return DASHES[slot // len(self.slots) % len(DASHES)]

    def slot_marker(self, slot: int) -> str:
        """Marker of a slot's points, by pyqtgraph's name."""
        return MARKERS[slot % len(MARKERS)]

    def slot_text(self, slot: int) -> str:
        """Colour of a slot for text on ``panel``: the slot's own, moved towards ``text`` until it can be read."""
        return readable(self.slot(slot), self.panel, self.text)

    def phase(self, name: str) -> str:
        """Colour of a phase by its name in lower case (``draft``, ``catch_up``).

        Raises:
            KeyError: no phase has that name.
        """
        return PHASES[name]

    def phase_text(self, name: str) -> str:
        """Colour of a phase for text on ``panel``: its own, moved towards ``text`` until it can be read.

        Raises:
            KeyError: no phase has that name.
        """
        return readable(PHASES[name], self.panel, self.text)

    def accepted_wash(self, draft_position: int) -> str:
        """Background of a token accepted at ``draft_position`` (from 1); deepens with it, up to the last strength."""
        strength = self.wash_strengths[min(max(draft_position, 1), len(self.wash_strengths)) - 1]
        return mix(self.panel, self.ok, strength)

    @property
    def selection_wash(self) -> str:
        """Background of what is selected, on ``panel``."""
        return mix(self.panel, self.accent, 0.22)

    @property
    def hover_wash(self) -> str:
        """Background of what the pointer is on, on ``panel``."""
        return mix(self.panel, self.text, 0.08)


def mix(first: str, second: str, share: float) -> str:
    """The colour ``share`` of the way from ``first`` to ``second``, share in [0, 1], mixed in sRGB."""
    pairs = zip(_channels(first), _channels(second), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def contrast_ratio(first: str, second: str) -> float:
    """Contrast of two colours, 1 to 21, by WCAG 2.1 (relative luminance of sRGB)."""
    low, high = sorted((_luminance(first), _luminance(second)))
    return (high + 0.05) / (low + 0.05)


def readable(colour: str, surface: str, text: str) -> str:
    """``colour``, moved towards ``text`` in steps of 5 % until it has the contrast of text on ``surface``."""
    for step in range(21):
        candidate = mix(colour, text, step / 20)
        if contrast_ratio(candidate, surface) >= MIN_TEXT_CONTRAST:
            return candidate
    return text


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _luminance(colour: str) -> float:
    red, green, blue = (_linear(channel / 255) for channel in _channels(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else float(((channel + 0.055) / 1.055) ** 2.4)


DARK = Theme(
    name="dark",
    is_dark=True,
    window="#16181d",
    panel="#1c1f26",
    raised="#232730",
    line="#313743",
    text="#e6e8ec",
    dim="#9aa3b2",
    faint="#5d6675",
    accent="#4da3ff",
    on_accent="#0d1117",
    ok="#2bb58a",
    warn="#e0a431",
    bad="#e8695a",
    slots=("#56b4e9", "#e69f00", "#cc79a7", "#009e73"),
    wash_strengths=(0.20, 0.31, 0.42, 0.50, 0.55),
)

LIGHT = Theme(
    name="light",
    is_dark=False,
    window="#f3f4f7",
    panel="#ffffff",
    raised="#f7f8fa",
    line="#d8dce3",
    text="#1c2330",
    dim="#5a6474",
    faint="#9aa3b2",
    accent="#0b66c3",
    on_accent="#ffffff",
    ok="#0a7d5c",
    warn="#946500",
    bad="#b93a2b",
    slots=("#0072b2", "#b87400", "#a8477f", "#007a5a"),
    wash_strengths=(0.13, 0.23, 0.33, 0.42, 0.50),
)

THEMES = (DARK, LIGHT)
