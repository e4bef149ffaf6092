"""What ``check`` is to do, decided from the options before anything is loaded."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from draftscope.cli.failure import UsageError
from draftscope.cli.options import model_settings
from draftscope.engine.probes import Fault
from draftscope.engine.protocol import CheckpointMode, ContextSettings, ModelSettings

MODES = tuple(mode for mode in CheckpointMode if mode is not CheckpointMode.AUTO)


@dataclass(frozen=True, slots=True)
class CheckPlan:
    """Settings of one check.

    Attributes:
        common: contexts, but for the way back.
        fault: what every restore is made to do wrong; NONE: nothing.
        n_repeats: timed pairs of runs in each way back, after the probed run; 0: none.
        max_tokens: of each reply.
        report: where the Markdown report is written; None: nowhere.
    """

    model: ModelSettings
    common: ContextSettings
    modes: tuple[CheckpointMode, ...]
    fault: Fault
    n_repeats: int
    max_tokens: int
    report: Path | None

    @property
    def other(self) -> Fault:
        """What is timed against no fault."""
        return Fault.OMIT_HOOK if self.fault is Fault.NONE else self.fault


def make_check_plan(options: argparse.Namespace) -> CheckPlan:
    """Check the options.

    Raises:
        UsageError: the report cannot be put where it is asked for.
    """
    if options.report is not None and not options.report.parent.is_dir():
        raise UsageError(f"The folder {options.report.parent} for the report does not exist.", "Make it first.")
    defaults = ContextSettings()
    common = ContextSettings(
        n_slots=options.slots,
        n_ctx=options.ctx or defaults.n_ctx,
        n_draft_max=options.draft_max,
        n_threads=options.threads,
        prompt_checkpoint_spacing=options.prompt_checkpoint_spacing,
        prompt_cache_mib=0,  # each conversation begins anew
    )
    return CheckPlan(
        model=model_settings(options),
        common=common,
        modes=options.modes or MODES,
        fault=Fault(options.fault),
        n_repeats=options.repeat,
        max_tokens=options.max_tokens,
        report=options.report,
    )
