"""Figures as text: three significant digits, a unit, and one unit per axis."""

from __future__ import annotations

import math

TimeUnit = tuple[str, float]
"""Name of a unit of time and its length in nanoseconds."""

_TIMES: tuple[TimeUnit, ...] = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")


def figure(value: float) -> str:
    """Three significant digits without an exponent: 0.0123, 1.23, 12.3, 123, 1230; a dash for NaN."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞"
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{digits}f}"
    if len(text.replace("-", "").replace(".", "").lstrip("0")) > 3 and digits > 0:  # 9.995 became 10.00
        text = f"{value:.{digits - 1}f}"
    return text


def time_unit(ns: float) -> TimeUnit:
    """The unit that shows times up to ``ns`` nanoseconds best: the largest that is not longer."""
    return next((unit for unit in _TIMES if abs(ns) >= unit[1]), _TIMES[-1])


def time_tick(ns: float, step_ns: float, unit: TimeUnit) -> str:
    """A tick of a time axis with ticks every ``step_ns``: as many decimals as the step needs."""
    name, length = unit
    decimals = max(0, -math.floor(math.log10(step_ns / length) + 1e-9)) if step_ns > 0 else 0
    return f"{ns / length:.{decimals}f} {name}"


def duration(ns: float) -> str:
    """A length of time in the unit that suits it, such as ``1.23 ms``; a dash for NaN."""
    if math.isnan(ns):
        return figure(ns)
    name, length = time_unit(ns)
    if figure(abs(ns) / length) == "1000":  # 999.9 µs are 1.00 ms
        name, length = time_unit(length * 1000)
    return f"{figure(ns / length)} {name}"


def bytes_text(n_bytes: float) -> str:
    """A size such as ``7.12 MiB``; whole bytes below a KiB."""
    power = 0
    while abs(n_bytes) >= 1024 and power + 1 < len(_SIZES):
        n_bytes /= 1024
        power += 1
    return f"{figure(n_bytes)} {_SIZES[power]}"


def percent(share: float) -> str:
    """A share in [0, 1] as ``73 %``; a dash for NaN (nothing to take a share of)."""
    return "–" if math.isnan(share) else f"{share * 100:.0f} %"


def rate(per_second: float, what: str = "tok/s") -> str:
    """A rate such as ``412 tok/s``."""
    return f"{figure(per_second)} {what}"
