"""How a report looks: the colours of the program, dark or light as the reader's system has it."""

from __future__ import annotations

from draftscope.base.theme import DARK, LIGHT, PHASES, Theme, readable

_RULES = """
* { box-sizing: border-box; }
body { margin: 0; background: var(--window); color: var(--text); font: 14px/1.5 system-ui, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 24px; margin: 0 0 2px; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 0 0 10px; }
h3 { font-size: 14px; margin: 16px 0 6px; color: var(--dim); font-weight: 600; }
p { margin: 6px 0; overflow-wrap: anywhere; }
.dim, figcaption { color: var(--dim); }
section { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: 16px 18px;
  margin: 16px 0; overflow: hidden; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(128px, 1fr)); gap: 10px; margin: 18px 0; }
.tile { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: 10px 14px; }
.tile b { display: block; font-size: 20px; font-variant-numeric: tabular-nums; }
.tile span { color: var(--dim); font-size: 12.5px; }
.bad { border-left: 4px solid var(--bad); }
.warn { border-left: 4px solid var(--warn); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--dim); font-weight: 600; }
th, td { padding: 4px 12px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; }
tbody tr:last-child td { border-bottom: none; }
th.n, td.n { text-align: right; white-space: nowrap; padding: 4px 0 4px 12px; }
dl { display: grid; grid-template-columns: minmax(130px, 230px) 1fr; gap: 3px 16px; margin: 0; }
dl.two { grid-template-columns: minmax(110px, 210px) 1fr minmax(110px, 210px) 1fr; }
@media (max-width: 760px) { dl.two { grid-template-columns: minmax(110px, 200px) 1fr; } }
dt { color: var(--dim); overflow-wrap: anywhere; }
dd { margin: 0; overflow-wrap: anywhere; }
figure { margin: 8px 0 14px; }
figcaption { font-size: 13px; margin-bottom: 4px; }
svg { display: block; width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: var(--dim); }
svg .value { fill: var(--text); font-size: 11px; }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg .axis { stroke: var(--faint); stroke-width: 1; }
svg .median { stroke: var(--text); stroke-width: 1.5; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.55 ui-monospace, monospace; margin: 4px 0 12px; }
.a { background: color-mix(in srgb, var(--ok) 22%, transparent); border-bottom: 1px solid var(--ok); }
.r { color: var(--bad); text-decoration: line-through; font-size: 11px; }
pre.log { white-space: pre-wrap; overflow-wrap: anywhere; font: 12px/1.5 ui-monospace, monospace; margin: 0; }
@media print { section { break-inside: avoid; } }
"""


def style_sheet() -> str:
    """Colours as variables, for light and dark, and the rules that use them."""
    return (
        f":root {{ color-scheme: light dark; {_variables(LIGHT)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}\n{_RULES}"
    )


def _variables(theme: Theme) -> str:
    names = ("window", "panel", "raised", "line", "text", "dim", "faint", "accent", "ok", "warn", "bad")
    colours = {name: str(getattr(theme, name)) for name in names}
    colours |= {f"slot{number}": colour for number, colour in enumerate(theme.slots)}
    colours |= {f"slot{number}-text": readable(c, theme.panel, theme.text) for number, c in enumerate(theme.slots)}
    colours |= {f"phase-{name}": colour for name, colour in PHASES.items()}
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())


def slot_colour(slot: int) -> str:
    """The variable of a slot's colour."""
    return f"var(--slot{slot % len(LIGHT.slots)})"


def phase_colour(name: str) -> str:
    """The variable of a phase's colour, by its name in lower case."""
    return f"var(--phase-{name})"
