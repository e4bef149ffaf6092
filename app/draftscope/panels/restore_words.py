"""What the Restore diffs panel says in words: of all restores, of one, and why there is nothing to show. No Qt."""

from __future__ import annotations

from typing import Any, NamedTuple

from draftscope.base import units
from draftscope.engine.probes import (
    LEVELS,
    UNKNOWN_POSITION,
    ZERO_ROW,
    ArrayKind,
    ProbeLevel,
    RestoreKind,
    StateStatus,
)
from draftscope.panels.panel import why_no_run
from draftscope.session.shown_run import ShownRun
from draftscope.session.state import SessionState
from draftscope.trace.pieces import PieceTable
from draftscope.trace.probe_cost import ProbeCost
from draftscope.trace.restore_text import mode_words
from draftscope.trace.restore_verdict import Verdict
from draftscope.trace.restores import KIND_WORDS, RestoreTable
from draftscope.trace.rows_in_use import RowsInUse

Reason = tuple[str, str]
"""Title and sentence of an empty page."""


class Shown(NamedTuple):
    """The restore that is looked at: its place in the table, its row and what was measured there."""

    place: int
    row: Any
    probe: Any | None

    @property
    def t_start_ns(self) -> int:
        """The name of its probe; -1 where it has none."""
        return -1 if self.probe is None else int(self.probe["t_start_ns"])


# ---- all restores


def headline(table: RestoreTable) -> str:
    """Such as ``2 of 312 differ`` or ``312 equal``; '' before the first."""
    counts = table.n_by_verdict()
    n_differing = sum(n for verdict, n in counts.items() if verdict.is_difference)
    n_probed = len(table) - counts.get(Verdict.NOT_PROBED, 0)
    if len(table) == 0:
        return ""
    if n_probed == 0:
        return f"{_restores(len(table))}, none probed"
    if n_differing:
        return f"{n_differing:,} of {n_probed:,} differ"
    n_rounding = counts.get(Verdict.ROUNDING, 0)
    if n_rounding:
        return f"{counts.get(Verdict.EQUAL, 0):,} equal, {n_rounding:,} within rounding"
    return f"{counts.get(Verdict.EQUAL, 0):,} equal"


def summary(table: RestoreTable, rows: RowsInUse) -> str:
    """All restores of the run in a sentence or two."""
    counts = table.n_by_verdict()
    n_differing = sum(n for verdict, n in counts.items() if verdict.is_difference)
    parts = [_restores(len(table))]
    for n, words in (
        (counts.get(Verdict.EQUAL, 0), "equal"),
        (counts.get(Verdict.ROUNDING, 0), "equal within rounding"),
        (n_differing, "differ" if n_differing != 1 else "differs"),
        (counts.get(Verdict.NOTHING_COMPARED, 0), "with nothing to compare"),
        (counts.get(Verdict.NOT_PROBED, 0), "not probed"),
    ):
        if n:
            parts.append(f"{n:,} {words}")
    if table.n_unmatched:
        parts.append(f"{table.n_unmatched:,} more whose records were lost")
    return " · ".join([*parts, rows.words] if rows.words else parts)


def _restores(n: int) -> str:
    return "1 restore" if n == 1 else f"{n:,} restores"


def cost_words(cost: ProbeCost) -> str:
    """What probes cost so far; '' before any."""
    if cost.probed_ns == 0:
        return ""
    share = cost.share * 100
    shown = "< 0.1" if share < 0.1 else f"{share:.1f}"
    return f"probes take {shown} % of the time"


def why_no_restores(session: ShownRun, table: RestoreTable) -> Reason | None:
    """Why there is no restore to show, or None where there is one."""
    if len(table):
        return None
    model = session.model
    if model is not None and session.state is not SessionState.LOADING and not model.speculation.is_active:
        return "Nothing is drafted", f"{model.speculation.reason} Nothing is rejected then, so nothing is restored."
    reason = why_no_run(session, "what each restore changed")
    if reason is not None:
        return reason
    return "No restores yet", "A rejected draft or an edited prompt makes one."


# ---- one restore


def name_of(shown: Shown) -> str:
    """Which restore it is, such as ``Slot 2, round 14: rejected draft, rollback to position 570 in 12.3 µs``."""
    row = shown.row
    where = f"Slot {row['slot']}" + (f", round {row['round']}" if row["round"] >= 0 else "")
    took = units.duration(float(row["duration_ns"]))
    replay = f", {row['n_replay']} to decode again" if row["n_replay"] else ""
    kind = KIND_WORDS[RestoreKind(int(row["kind"]))]
    return f"{where}: {kind}, {mode_words(int(row['mechanism']))} to position {row['position']:,} in {took}{replay}"


def probe_words(shown: Shown) -> str:
    """Level and cost of its probe."""
    if shown.probe is None:
        return ""
    level, took = LEVELS[int(shown.probe["level"])], units.duration(float(shown.probe["duration_ns"]))
    return f"Probed at level {level.value} in {took}."


def why_not_probed(session: ShownRun, shown: Shown) -> Reason | None:
    """Why nothing was measured at this restore, or None."""
    if shown.probe is not None:
        return None
    if session.model is None:
        return "This restore was not probed", "Probing was off when this was recorded."
    level = session.probing.level_of(int(shown.row["slot"]))
    if level is ProbeLevel.OFF:
        return "Probing is off", "Choose a level above to measure restores."
    return "This restore was not probed", f"From now on those of its slot are, at level {level.value}."


def why_no_array(session: ShownRun, shown: Shown, kind: ArrayKind) -> Reason | None:
    """Why an array of a probed restore is not here, or None."""
    if session.trace.array(shown.t_start_ns, kind) is not None:
        return None
    if session.trace.n_arrays_not_kept + session.n_arrays_lost == 0:
        return (
            "These values are not in the file",
            "A file without text has no hidden rows and no draft tokens, since text can be read from them.",
        )
    return (
        "These values are not kept",
        "There was no room for more arrays when they came; the figures are here.",
    )


def why_no_rows(session: ShownRun, shown: Shown) -> Reason | None:
    """Why there are no rows to draw, or None."""
    if reason := why_not_probed(session, shown):
        return reason
    if shown.probe is not None and int(shown.probe["restored_n_differing"]) < 0:
        return "No hidden row here", "Nothing is drafted from this position, so no row was put back."
    return why_no_array(session, shown, ArrayKind.ROWS)


def why_no_draft(session: ShownRun, shown: Shown) -> Reason | None:
    """Why there are no draft distributions to draw, or None."""
    if reason := why_not_probed(session, shown):
        return reason
    assert shown.probe is not None
    if LEVELS[int(shown.probe["level"])] in (ProbeLevel.OFF, ProbeLevel.HIDDEN):
        return "This level does not measure draft logits", "Choose logits or state to run the next draft from each row."
    if int(shown.probe["n_vocab"]) == 0:
        return (
            "No draft was run from here",
            "Its task ended, or other tokens were decoded, before the next draft.",
        )
    return why_no_array(session, shown, ArrayKind.TOP_TOKENS)


def why_no_layers(session: ShownRun, shown: Shown) -> Reason | None:
    """Why there are no recurrent layers to draw, or None."""
    model = session.model
    status = StateStatus.NOT_PROBED if shown.probe is None else StateStatus(int(shown.probe["state_status"]))
    has_none = model is not None and not model.is_recurrent
    if status is StateStatus.NO_RECURRENT_LAYERS or (status is StateStatus.NOT_PROBED and has_none):
        return (
            "This model has no recurrent layers",
            "Its state cannot be stale: keys and values go by position.",
        )
    if reason := why_not_probed(session, shown):
        return reason
    match status:
        case StateStatus.NOT_PROBED:
            return "This level does not measure recurrent state", "Choose state to compare it layer by layer."
        case StateStatus.UNKNOWN_LAYOUT:
            return (
                "This state cannot be read",
                "The layout of its bytes is not known, so nothing is claimed.",
            )
        case StateStatus.NO_REFERENCE:
            return "There is nothing to compare with", "This state was saved before its slot was probed, or elsewhere."
        case _:
            return why_no_array(session, shown, ArrayKind.LAYERS)


def position_words(position: int) -> str:
    """The position that a row belongs to, in a table."""
    if position == ZERO_ROW:
        return "zeros"
    return "unknown" if position == UNKNOWN_POSITION else f"{position:,}"


def token_text(pieces: PieceTable, token: int) -> str:
    """A token as it is written in a list: its text in quotes, or its number where the text is not known."""
    if token < 0:
        return "–"
    piece = pieces.piece(token)
    return f"token {token}" if piece is None else repr(piece.decode("utf-8", "replace"))
