"""Commands on a slot that has no task at work: checked, given to the backend, answered with what it holds then."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from typing import assert_never

from draftscope.engine.backend import Backend
from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.protocol import (
    ClearSlot,
    ForkSlot,
    ModelReport,
    RestoreSlot,
    RewindSlot,
    SaveSlot,
    ShiftSlot,
    SlotChanged,
    SlotCommand,
    SlotFacts,
)
from draftscope.engine.slot_file import SlotImage, read_slot_file, write_slot_file
from draftscope.engine.task_checks import check_numbers, check_slot


def carry_out(
    command: SlotCommand, backend: Backend, model: ModelReport, busy: Collection[int], beat: Callable[[], None]
) -> SlotChanged:
    """Do what a command says.

    Args:
        command: of a client, so nothing in it is certain.
        backend: has a model and contexts.
        model: what is loaded.
        busy: slots that are at work.
        beat: a sign of life, called while files are written and read.

    Raises:
        EngineError: BAD_SETTINGS, BUSY, UNSUPPORTED, BAD_STATE, BAD_FILE, OUT_OF_MEMORY; nothing has changed then.
    """
    check_numbers(command)
    changed, n_bytes = command.to if isinstance(command, ForkSlot) else command.slot, 0
    for slot in {command.slot, changed}:
        check_slot(slot, model)
        if slot in busy:
            raise EngineError(ErrorCode.BUSY, f"Slot {slot} is still generating.", "Wait for it or cancel it.")
    match command:
        case ClearSlot():
            backend.clear_slot(command.slot)
        case RewindSlot():
            _check_rewind(command, backend)
            backend.rewind_slot(command.slot, command.n_tokens)
        case ForkSlot():
            _check_fork(command, backend)
            backend.fork_slot(command.slot, command.to)
        case ShiftSlot():
            _check_shift(command, backend)
            backend.shift_slot(command.slot, command.n_keep, command.n_discard)
        case SaveSlot():
            n_bytes = _save(command, backend, model, beat)
        case RestoreSlot():
            n_bytes = _restore(command, backend, model, beat)
        case _:
            assert_never(command)
    return SlotChanged(command.id, facts_of(changed, backend, model), n_bytes)


def facts_of(slot: int, backend: Backend, model: ModelReport) -> SlotFacts:
    """What a slot holds, with its tokens and their text."""
    tokens = backend.slot_tokens(slot)
    text = _text_of(tokens, backend) if model.has_tokenizer else ""
    return dataclasses.replace(backend.slot_facts(slot), tokens=tokens, text=text)


def _text_of(tokens: tuple[int, ...], backend: Backend) -> str:
    """The text, without the begin token that the engine put before it: nobody wrote that."""
    begin = backend.tokenize("", parse_special=False, add_special=True)
    return backend.text_of(tokens[len(begin) :] if begin == tokens[: len(begin)] else tokens)


def _check_rewind(command: RewindSlot, backend: Backend) -> None:
    n_held = backend.slot_facts(command.slot).n_tokens
    if not 0 <= command.n_tokens <= n_held:
        what = f"Slot {command.slot} holds {n_held} tokens, so it cannot go back to {command.n_tokens}."
        raise EngineError(ErrorCode.BAD_SETTINGS, what)


def _check_fork(command: ForkSlot, backend: Backend) -> None:
    if command.slot == command.to:
        what = f"Slot {command.slot} cannot be forked to itself."
        raise EngineError(ErrorCode.BAD_SETTINGS, what, "Name another slot.")
    if backend.slot_facts(command.slot).n_tokens == 0:
        what = f"Slot {command.slot} holds nothing, so there is nothing to fork."
        raise EngineError(ErrorCode.BAD_STATE, what, "Run something in it first.")


def _check_shift(command: ShiftSlot, backend: Backend) -> None:
    n_held = backend.slot_facts(command.slot).n_tokens
    if command.n_keep < 0 or command.n_discard < 1 or command.n_keep + command.n_discard >= n_held:
        what = (
            f"Slot {command.slot} holds {n_held} tokens, so it cannot drop {command.n_discard} behind the first "
            f"{command.n_keep}: at least one must be left behind them."
        )
        raise EngineError(ErrorCode.BAD_SETTINGS, what)


def _save(command: SaveSlot, backend: Backend, model: ModelReport, beat: Callable[[], None]) -> int:
    tokens = backend.slot_tokens(command.slot)
    if not tokens:
        what = f"Slot {command.slot} holds nothing, so there is nothing to save."
        raise EngineError(ErrorCode.BAD_STATE, what, "Run something in it first.")
    image = SlotImage(backend.identity(), model.description, tokens, backend.save_slot(command.slot))
    return write_slot_file(command.path, image, beat)


def _restore(command: RestoreSlot, backend: Backend, model: ModelReport, beat: Callable[[], None]) -> int:
    image, n_bytes = read_slot_file(command.path, backend.identity(), beat)
    if len(image.tokens) >= model.n_ctx:
        what = f"{command.path} holds {len(image.tokens)} tokens; a slot has room for {model.n_ctx}."
        raise EngineError(ErrorCode.BAD_STATE, what, "Load the model with a larger context.")
    backend.restore_slot(command.slot, image.state)
    return n_bytes
