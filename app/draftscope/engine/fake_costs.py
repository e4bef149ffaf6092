"""What the scripted engine says that its ways back cost: the calibration, and the bytes of its memory by kind."""

from __future__ import annotations

from draftscope.engine.events import Mechanism
from draftscope.engine.protocol import ContextSettings, MemoryUse, TimedWay

STATE_BYTES = 20_185_088
"""Of a checkpoint: the recurrent state of a model of about a billion parameters."""

WEIGHTS_BYTES = 853_417_984
_COMPUTE_BYTES = 318_767_104
_KV_BYTES_PER_TOKEN = 12_288
_DRAFT_KV_BYTES_PER_TOKEN = 2_048
_CELL_PADDING = 256

CALIBRATION_MS = 212.0
_N_TIMED = 24
_WAYS = (Mechanism.ROLLBACK, Mechanism.COW, Mechanism.DEVICE, Mechanism.HOST)
_SAVE_US = {Mechanism.COW: 4.1, Mechanism.DEVICE: 318.0, Mechanism.HOST: 512.0}
_RESTORE_US = {Mechanism.ROLLBACK: 1.4, Mechanism.COW: 15.2, Mechanism.DEVICE: 301.0, Mechanism.HOST: 433.0}
_AFTER_US = {Mechanism.ROLLBACK: -6.0, Mechanism.COW: 21.0, Mechanism.DEVICE: 34.0, Mechanism.HOST: 410.0}
_VERIFY_US = 6_870.0
_REPLAY_US = 486.0


def calibration(chosen: Mechanism, refused: dict[Mechanism, str], n_slots: int) -> tuple[TimedWay, ...]:
    """The table of a scripted calibration; ``refused``: ways that are not to be had, and why."""
    return tuple(_row(way, way is chosen, refused.get(way, ""), n_slots) for way in _WAYS)


def _row(way: Mechanism, is_chosen: bool, refusal: str, n_slots: int) -> TimedWay:
    name = way.name.lower()
    if refusal:
        return TimedWay(name, False, False, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, refusal)
    save_us, restore_us, after_us = _SAVE_US.get(way, 0.0), _RESTORE_US[way], _AFTER_US[way]
    # Native rollback keeps its steps back in the graph, so its verification takes a little longer.
    verify_us = _VERIFY_US * (1.04 if way is Mechanism.ROLLBACK else 1.0)
    replay_us = 0.0 if way is Mechanism.ROLLBACK else _REPLAY_US
    round_us = n_slots * (save_us + restore_us) + verify_us + after_us + replay_us
    why = "It is the cheapest for this model and number of slots." if is_chosen else ""
    return TimedWay(
        name,
        True,
        is_chosen,
        _N_TIMED,
        save_us,
        restore_us,
        verify_us,
        after_us,
        replay_us,
        round_us,
        state_bytes(way, 3),
        why,
    )


def state_bytes(way: Mechanism, n_steps: int) -> int:
    """Bytes of states beside the live one, a slot."""
    match way:
        case Mechanism.ROLLBACK:
            return n_steps * STATE_BYTES
        case Mechanism.COW | Mechanism.DEVICE | Mechanism.HOST:
            return STATE_BYTES
        case _:
            return 0


def memory_of(context: ContextSettings, way: Mechanism, *, is_recurrent: bool, n_draft: int) -> tuple[MemoryUse, ...]:
    """The memory of scripted contexts, all on the host; compute buffers and weights are not predicted."""
    cells = -(-(context.n_ctx + 1 + n_draft) // _CELL_PADDING) * _CELL_PADDING * context.n_slots
    steps = n_draft if way is Mechanism.ROLLBACK else 0
    live = context.n_slots * STATE_BYTES * (1 + steps) if is_recurrent else 0
    saved = context.n_slots * state_bytes(way, 0)
    kv, draft = cells * _KV_BYTES_PER_TOKEN, cells * _DRAFT_KV_BYTES_PER_TOKEN if n_draft else 0
    return (
        MemoryUse("weights", WEIGHTS_BYTES, 0),
        MemoryUse("kv", kv, 0, kv),
        MemoryUse("recurrent", live, 0, live),
        MemoryUse("checkpoints", saved, 0, saved),
        MemoryUse("draft", draft, 0, draft),
        MemoryUse("compute", _COMPUTE_BYTES, 0),
    )
