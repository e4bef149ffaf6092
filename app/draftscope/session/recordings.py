"""The folder of recorded runs: which there are, which are pinned, and that they take no more than their share.

Nothing here knows Qt. Pins are changed by the window's thread; everything else may be called by any thread, and waits
for the disk.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

from draftscope.base.units import bytes_text
from draftscope.trace.errors import TraceError
from draftscope.trace.tracefile import finish_recording, is_being_recorded, read_facts, remove_trace
from draftscope.trace.tracefile.facts import TraceFacts, size_on_disk
from draftscope.trace.tracefile.lock import lock_path

SUFFIX = ".dscope"
_PINS = "pinned.json"
_RESERVE = 8
"""A new recording gets at least this part of the budget, an eighth; older ones go for it."""

_LEAST = 64
"""A recording that could not have this part of the budget is not begun."""


class Recordings:
    """The files in one folder, which need not exist yet. ``budget_bytes``: what they may take together."""

    def __init__(self, folder: Path, budget_bytes: int) -> None:
        self.folder = folder
        self.budget_bytes = budget_bytes
        self._pins_lock = threading.Lock()

    def new_path(self, model: str) -> Path:
        """A name for a new recording that no other has: the moment and the model."""
        name = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in Path(model).stem)[:60]
        now = datetime.now().astimezone()
        return self.folder / f"{now:%Y-%m-%d_%H-%M-%S}-{now.microsecond // 1000:03}_{name}{SUFFIX}"

    def paths(self) -> list[Path]:
        """All recordings, the newest first."""
        found = []
        for path in self.folder.glob(f"*{SUFFIX}") if self.folder.is_dir() else ():
            with contextlib.suppress(OSError):
                found.append((path.stat().st_mtime, path))
        return [path for _, path in sorted(found, reverse=True)]

    def all_facts(self, cancelled: Callable[[], bool] = lambda: False) -> list[TraceFacts]:
        """What each of them is, the newest first; those that were looked at before ``cancelled`` said so."""
        found = [read_facts(path) for path in self.paths() if not cancelled()]
        return sorted(found, key=lambda facts: facts.started_s, reverse=True)

    # ---- pins

    def pinned(self) -> frozenset[str]:
        """Names of the files that stay."""
        try:
            names = json.loads((self.folder / _PINS).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return frozenset()
        return frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()

    def set_pinned(self, paths: Iterable[Path], is_pinned: bool) -> None:
        """Let files stay, or let them go when there is no room any more.

        Raises:
            TraceError: this cannot be kept.
        """
        with self._pins_lock:
            names = {path.name for path in paths}
            pinned = (self.pinned() | names) if is_pinned else (self.pinned() - names)
            try:
                draft = self.folder / f"{_PINS}.new"
                draft.write_text(json.dumps(sorted(pinned)), encoding="utf-8")
                draft.replace(self.folder / _PINS)
            except OSError as error:
                raise TraceError(f"What is pinned cannot be kept in {self.folder}: {error.strerror}.") from error

    # ---- room

    def make_room(self, path: Path, n_bytes: int) -> int:
        """How many bytes the recording at ``path``, which has so many, may have in all; older ones are removed for it.

        Raises:
            TraceError: the folder cannot be made, or what is pinned leaves no room for a new recording.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            what = f"The folder for recordings, {self.folder}, cannot be made: {error.strerror}."
            raise TraceError(what) from error
        sizes = {other: size_on_disk(other) for other in self.paths() if other != path}
        wanted = n_bytes + self.budget_bytes // _RESERVE
        pinned = self.pinned()
        for other in reversed(sizes):
            if sum(sizes.values()) + wanted <= self.budget_bytes:
                break
            if other.name not in pinned:
                with contextlib.suppress(TraceError):  # it is being recorded, or not ours to remove
                    remove_trace(other)
                    sizes[other] = 0
        room = self.budget_bytes - sum(sizes.values())
        if n_bytes == 0 and room < self.budget_bytes // _LEAST:
            budget = bytes_text(self.budget_bytes)
            raise TraceError(
                f"This run is not recorded: pinned recordings take up the {budget} that there are for all. "
                "Unpin or delete some, or give them more room, under Recordings."
            )
        return room

    # ---- after a crash

    def cut_off(self) -> list[TraceFacts]:
        """Recordings that a process left behind when it was killed, the newest first.

        Those that lost nothing, since their run had ended, are made whole at once and not told.
        """
        found = []
        for path in self.paths():
            if not lock_path(path).exists() or is_being_recorded(path):
                continue
            facts = read_facts(path)
            if facts.is_complete:
                with contextlib.suppress(TraceError):
                    finish_recording(path)
            elif facts.n_records == 0 and not facts.problem:
                with contextlib.suppress(TraceError):
                    remove_trace(path)
            else:
                found.append(facts)
        return found
