"""Where random slots live: a tiny model of each kind of memory, its engine, and a plain one that says what is right."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from draftscope.engine.protocol import CheckpointMode, ContextSettings, Prompt, SlotTask
from tests.engine_ext.harness import GREEDY, Bench
from tests.engine_ext.random_slots import Outcome, Plain, Tokens
from tests.models.make_random import cached_models

ROOT = Path(__file__).parents[2]
N_CTX = 192
N_BATCH = 64


@dataclasses.dataclass(frozen=True)
class Kind:
    """A model and how it is driven."""

    model: str
    mode: CheckpointMode = CheckpointMode.AUTO
    use_mtp: bool = True

    @property
    def path(self) -> Path:
        """Of the model's file."""
        if self.model == "demo":
            return ROOT / "resources" / "models" / "draftscope-demo.gguf"
        return cached_models(ROOT / "build") / f"{self.model}.gguf"


KINDS = {
    f"{model}-{mode.value}": Kind(model, mode) for model in ("qwen35", "qwen3next", "demo") for mode in CheckpointMode
} | {
    "qwen35-plain": Kind("qwen35", use_mtp=False),
    "glm4moe": Kind("glm4moe"),
    "glm4moe-plain": Kind("glm4moe", use_mtp=False),
    "step35": Kind("step35"),
    "step35-plain": Kind("step35", use_mtp=False),  # without drafting its windows forget
    "gemma4-plain": Kind("gemma4", use_mtp=False),
    "dense": Kind("dense"),
}


@dataclasses.dataclass
class Tally:
    """What happened in all sequences. ``n_ties``: tokens that plain decoding nearly writes; ``reuse``: of each task."""

    n_sequences: int = 0
    n_tasks: int = 0
    n_tokens: int = 0
    n_ties: int = 0
    largest_tie: float = 0.0
    operations: Counter[str] = dataclasses.field(default_factory=Counter)
    stops: Counter[str] = dataclasses.field(default_factory=Counter)
    reuse: Counter[str] = dataclasses.field(default_factory=Counter)
    counts: Counter[str] = dataclasses.field(default_factory=Counter)


def base_text(seed: int) -> Tokens:
    """Tokens to make prompts of, all within a vocabulary of 200."""
    die = random.Random(seed)
    return tuple(die.randrange(5, 195) for _ in range(N_CTX))


@dataclasses.dataclass(frozen=True)
class Room:
    """How contexts are made: host memory for so many prompt checkpoints, and for so many cached slots."""

    n_slots: int
    n_checkpoints: float = 50
    n_cached: int = 10
    spacing: int = 32
    rides: bool = True
    catch_up_alone: bool = False
    use_hooks: bool = True
    shift: bool = False


class Place:
    """The engines of one kind. The model is loaded once; contexts are made for each sequence."""

    def __init__(self, kind: Kind) -> None:
        self.kind, self.tally = kind, Tally()
        self.bench, plain = Bench(1 << 12), Bench(1 << 12)
        self.bench.load(kind.path, ContextSettings(n_slots=1, n_ctx=N_CTX, use_mtp=kind.use_mtp, checkpoint=kind.mode))
        off = {"prompt_checkpoints_mib": 0, "prompt_cache_mib": 0}
        plain.load(kind.path, ContextSettings(n_slots=1, n_ctx=2 * N_CTX, use_mtp=False, n_threads=1, **off))
        self.plain = Plain(plain)
        self.engine = self.bench.backend._engine
        self.checkpoint_budget = self.cache_budget = 0
        self.n_slots, self.room = 1, Room(1)
        self._state_bytes = self._slot_bytes = 0
        self._measure()

    def close(self) -> None:
        """Unload both."""
        self.bench.backend.unload()
        self.plain.bench.backend.unload()

    def _measure(self) -> None:
        self.bench.submit(SlotTask(0, Prompt(), GREEDY, 1, ignore_eos=True), base_text(0)[:100])
        self.bench.finish()
        facts = self.engine.slot_facts(0)
        self._state_bytes = facts["prompt_checkpoint_bytes"] // max(1, facts["n_prompt_checkpoints"])
        self._slot_bytes = len(self.engine.save_slot(0))

    def configure(self, room: Room) -> dict[str, Any]:
        """Fresh contexts; returns the report. Budgets are in bytes: in MiB the states of a tiny model would all fit."""
        self.bench.ring.read()
        self.n_slots, self.room = room.n_slots, room
        self.checkpoint_budget = int(room.n_checkpoints * self._state_bytes)
        self.cache_budget = room.n_cached * self._slot_bytes
        return self.engine.configure(
            n_slots=room.n_slots,
            n_ctx=N_CTX,
            n_draft_max=3,
            use_mtp=self.kind.use_mtp,
            checkpoint=list(CheckpointMode).index(self.kind.mode),
            n_threads=1,
            n_batch=N_BATCH,
            catch_up_alone=room.catch_up_alone,
            replay=1 if room.rides else 2,
            host_room_bytes=-1,
            state_bytes=0,
            prompt_checkpoints_bytes=self.checkpoint_budget,
            prompt_checkpoint_spacing=room.spacing,
            prompt_cache_bytes=self.cache_budget,
            use_hooks=room.use_hooks,
            shift=room.shift,
            keep_going=lambda: True,
        )

    def check_tokens(self, prompt: Tokens, written: Tokens) -> None:
        """They are those of plain decoding, but for near-ties."""
        outcome = Outcome()
        self.plain.check(prompt, written, outcome)
        assert outcome.wrong == []
        self.tally.n_tasks += 1
        self.tally.n_tokens += len(written)
        self.tally.n_ties += outcome.n_ties
        self.tally.largest_tie = max(self.tally.largest_tie, outcome.largest_tie)


@contextmanager
def open_place(name: str) -> Iterator[Place]:
    """The engines of a kind, unloaded at the end."""
    place = Place(KINDS[name])
    yield place
    place.close()


def memory_of(place: Place, slot: int) -> tuple[object, ...]:
    """What no operation on another slot changes; prompt checkpoints may go for want of room."""
    facts = place.engine.slot_facts(slot)
    return (facts["n_tokens"], facts["n_decoded"], facts["n_draft"], facts["n_waiting"], place.engine.slot_tokens(slot))


@contextmanager
def others_untouched(place: Place, n_slots: int, *changed: int) -> Iterator[None]:
    """All slots but these are the same afterwards."""
    others = [slot for slot in range(n_slots) if slot not in changed]
    before = [memory_of(place, slot) for slot in others]
    yield
    assert [memory_of(place, slot) for slot in others] == before


def check_all(place: Place, n_slots: int) -> None:
    """Every invariant holds, and the bytes that are shown are those that are held."""
    assert place.engine.find_broken() == ""
    held = sum(place.engine.slot_facts(slot)["prompt_checkpoint_bytes"] for slot in range(n_slots))
    shown = {kind: host_bytes for kind, host_bytes, _ in place.engine.memory()}
    assert shown["prompt_checkpoints"] == held <= place.checkpoint_budget
    assert shown["prompt_cache"] <= place.cache_budget
