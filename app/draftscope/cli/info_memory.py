"""The memory that ``info`` predicts: of a slot and of all, by way back, and how it grows with the slots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from draftscope.base.units import bytes_text
from draftscope.cli.terminal import table
from draftscope.engine.events import Mechanism
from draftscope.engine.model_file import ModelFile
from draftscope.engine.model_memory import MemoryNeeds, SlotMemory

GROWTH_SLOTS = (1, 2, 4, 8)
"""Numbers of slots that the growth is shown for."""

_WITHOUT = "without MTP"

_SAVED_IN = {"cow": "device", "device": "device", "host": "host"}
"""Where the saved state is; ``device``: where the live one is, which is host memory on the CPU."""

_WHERE = {
    "cow": "saved in a spare sequence of the same memory",
    "device": "saved in the memory of the device",
    "host": "saved in the computer's memory",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """The contexts to predict for; ``n_ctx`` in tokens a slot."""

    n_slots: int
    n_ctx: int
    n_draft_max: int


def prediction(model: ModelFile, asked: Asked) -> dict[str, Any] | None:
    """The predicted bytes as JSON types: with the way back that ``auto`` prefers, and by way back."""
    if model.memory is None:
        return None
    slot = _slot(model, model.memory, asked)
    return {
        "n_slots": asked.n_slots,
        "n_ctx": asked.n_ctx,
        "n_draft_max": _drafted(model, asked),
        "n_rs_seq": _steps_back(model, asked),
        "slot": asdict(slot) | {"total_bytes": slot.total_bytes},
        "all_slots_bytes": slot.total_bytes * asked.n_slots,
        "state_bytes_by_way_back": state_bytes(model, asked),
        "by_way_back": [
            {
                "way_back": None if name == _WITHOUT else name.replace(" ", "_"),
                "slot": asdict(one) | {"total_bytes": one.total_bytes},
                "saved_in": _SAVED_IN.get(name) if one.checkpoint_bytes else None,
                "all_slots_bytes": {str(n): one.total_bytes * n for n in GROWTH_SLOTS},
            }
            for name, one in _slots(model, model.memory, asked).items()
        ],
    }


def state_bytes(model: ModelFile, asked: Asked) -> dict[str, int]:
    """Bytes of recurrent state and its copies a slot, by way back that is possible; empty where it is not predicted."""
    if model.memory is None:
        return {}
    slots = _slots(model, model.memory, asked)
    return {name: one.recurrent_bytes + one.checkpoint_bytes for name, one in slots.items() if name != _WITHOUT}


def memory_as_text(model: ModelFile, asked: Asked) -> Iterator[str]:
    """The predicted bytes for a person, in parts."""
    yield "\n".join(_of_asked(model, asked))
    if model.memory is not None and model.ways_back:
        yield "\n".join(_by_way_back(model, model.memory, asked))


def _of_asked(model: ModelFile, asked: Asked) -> Iterator[str]:
    yield f"Memory for {asked.n_slots} slots of {asked.n_ctx:,} tokens, draft length {_drafted(model, asked)}"
    if model.memory is None:
        yield "  not predicted: " + (
            "the file has no weights"
            if model.n_tensors == 0
            else "this architecture keeps more than keys, values and states"
        )
        return
    slot = _slot(model, model.memory, asked)
    per_token = f"{model.memory.kv_bytes_per_token:,} bytes a token"
    draft_per_token = f"{model.memory.draft_kv_bytes_per_token:,} bytes a token"
    n_states = 1 + _steps_back(model, asked)
    state = f"{n_states} states of {bytes_text(model.memory.recurrent_bytes)}" if n_states > 1 else ""
    rows = [
        ("keys and values", slot.kv_bytes, per_token),
        ("of the MTP layers", slot.draft_kv_bytes, draft_per_token if slot.draft_kv_bytes else _why_no_keys(model)),
        ("recurrent state", slot.recurrent_bytes, state),
        ("together", slot.total_bytes, ""),
    ]
    cells = [(f"  {name}", bytes_text(n), bytes_text(n * asked.n_slots)) for name, n, _ in rows]
    lines = table(("", "one slot", "all slots"), cells).split("\n")
    yield lines[0]
    for line, (_, _, remark) in zip(lines[1:], rows, strict=True):
        yield f"{line}  {remark}".rstrip()


def _why_no_keys(model: ModelFile) -> str:
    return "none of its own: the assistant reads those above" if model.draft and model.mtp.can_draft else ""


def _by_way_back(model: ModelFile, memory: MemoryNeeds, asked: Asked) -> Iterator[str]:
    yield "The same by way back: a slot by kind, and all slots as they grow in number"
    slots = _slots(model, memory, asked)
    rows = [
        (
            f"  {name}",
            *(bytes_text(n) if n else "-" for n in (one.kv_bytes, one.draft_kv_bytes)),
            *(bytes_text(n) if n else "-" for n in (one.recurrent_bytes, one.checkpoint_bytes)),
            *(bytes_text(one.total_bytes * n) for n in GROWTH_SLOTS),
        )
        for name, one in slots.items()
    ]
    growth = [f"{n} slot{'' if n == 1 else 's'}" for n in GROWTH_SLOTS]
    lines = table(("", "keys and values", "of MTP", "states", "saved", *growth), rows).split("\n")
    yield lines[0]
    for line, (name, one) in zip(lines[1:], slots.items(), strict=True):
        yield f"{line}  {_WHERE.get(name, '') if one.checkpoint_bytes else ''}".rstrip()


def _slots(model: ModelFile, memory: MemoryNeeds, asked: Asked) -> dict[str, SlotMemory]:
    """One slot without MTP, and with each way back that is possible."""
    n_draft = _drafted(model, asked)
    possible = [way.name for way in model.ways_back if way.is_possible]
    ways = {
        name: memory.slot_with(Mechanism[name.replace(" ", "_").upper()], asked.n_ctx, n_draft) for name in possible
    }
    return {_WITHOUT: memory.slot_with(Mechanism.NONE, asked.n_ctx, 0)} | ways


def _drafted(model: ModelFile, asked: Asked) -> int:
    return model.mtp.longest_draft(asked.n_draft_max)


def _steps_back(model: ModelFile, asked: Asked) -> int:
    can_roll_back = any(way.name == "rollback" and way.is_possible for way in model.ways_back)
    return _drafted(model, asked) if can_roll_back else 0


def _slot(model: ModelFile, memory: MemoryNeeds, asked: Asked) -> SlotMemory:
    return memory.slot(asked.n_ctx, _drafted(model, asked), _steps_back(model, asked))
