"""Slots that a run takes from files before it begins, and writes into files when it has ended."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftscope.cli.failure import UsageError
from draftscope.cli.generation import Generation
from draftscope.engine.errors import EngineError
from draftscope.engine.protocol import ModelReport, RestoreSlot, SaveSlot, SlotFacts
from draftscope.engine.slot_file import place_of_slot_file


@dataclass(frozen=True, slots=True)
class SlotFile:
    """A slot, and the file (absolute) that it is taken from or written into."""

    slot: int
    path: str


def slot_file(text: str) -> SlotFile:
    """The type of an option ``SLOT:FILE``."""
    slot, colon, path = text.partition(":")
    if not colon or not path or not slot.isascii() or not slot.isdecimal() or len(slot) > 4:
        raise argparse.ArgumentTypeError(f"{text!r} is not SLOT:FILE, such as 0:kept.slot")
    return SlotFile(int(slot), str(Path(path).absolute()))


def add_slot_file_options(group: Any) -> None:
    """Which slots are restored and saved, and whether anything is reused."""
    group.add_argument(
        "--restore-slot",
        metavar="SLOT:FILE",
        type=slot_file,
        action="append",
        default=[],
        help="before the run, let a slot hold what a file holds; may be repeated. The slot's first prompt is appended "
        "to that, or, where it begins with the text of it, takes its place and reuses it; without any prompt the slot "
        "just goes on",
    )
    group.add_argument(
        "--save-slot",
        metavar="SLOT:FILE",
        type=slot_file,
        action="append",
        default=[],
        help="after the run, write what a slot holds into a file, for this model and llama.cpp; may be repeated",
    )
    group.add_argument("--no-reuse", action="store_true", help="process every prompt from its beginning")


def check_slot_files(options: argparse.Namespace) -> None:
    """Refuse options that do not fit together.

    Raises:
        UsageError: a slot is named twice, nothing may be reused of what is restored, or a file cannot be where it is
            to be (told before the run, whose slots would be lost).
    """
    for name, files in (("--restore-slot", options.restore_slot), ("--save-slot", options.save_slot)):
        slots = [file.slot for file in files]
        if len(set(slots)) < len(slots):
            twice = next(slot for slot in slots if slots.count(slot) > 1)
            raise UsageError(f"{name} names slot {twice} twice.", "Give each slot one file.")
    for file in options.save_slot:
        try:
            place_of_slot_file(file.path)
        except EngineError as error:
            raise UsageError(error.message, error.hint) from None
    if options.no_reuse and options.restore_slot:
        raise UsageError("--no-reuse and --restore-slot exclude each other.", "What is restored is there to be reused.")


class SlotFiles:
    """Carries both out, and keeps what came of it for ``run --json``."""

    def __init__(self) -> None:
        self.restored: list[dict[str, Any]] = []
        self.saved: list[dict[str, Any]] = []

    def restore(
        self, generation: Generation, files: tuple[SlotFile, ...], model: ModelReport
    ) -> Mapping[int, SlotFacts]:
        """Restore; what the slots hold now, by slot.

        Raises:
            EngineError: a file cannot be restored.
            UsageError: a slot was not granted.
        """
        held = {}
        for file in files:
            if file.slot >= model.n_slots:
                raise UsageError(f"There is no slot {file.slot}: {model.n_slots} were granted.", "See --slots.")
            changed = generation.change(RestoreSlot(generation.next_id(), file.slot, file.path))
            held[file.slot] = changed.slot
            self.restored.append(_row(file, changed.slot.n_tokens, changed.size_bytes))
        return held

    def save(self, generation: Generation, files: tuple[SlotFile, ...]) -> None:
        """Save; one that fails is kept with its error, so that the figures of the run are not lost with it."""
        for file in files:
            try:
                changed = generation.change(SaveSlot(generation.next_id(), file.slot, file.path))
            except EngineError as error:
                self.saved.append(_row(file, 0, 0, f"{error.message} {error.hint}".strip()))
            else:
                self.saved.append(_row(file, changed.slot.n_tokens, changed.size_bytes))

    @property
    def errors(self) -> list[str]:
        """Of the saves that failed."""
        return [row["error"] for row in self.saved if row["error"]]

    def as_json(self) -> dict[str, list[dict[str, Any]]]:
        """The object ``slot_files`` of ``run --json``."""
        return {"restored": self.restored, "saved": self.saved}


def _row(file: SlotFile, n_tokens: int, size_bytes: int, error: str = "") -> dict[str, Any]:
    return {"slot": file.slot, "file": file.path, "n_tokens": n_tokens, "size_bytes": size_bytes, "error": error}
