"""What an engine can do, whichever it is: the native core, or the scripted one of the tests.

``engine/host.py`` drives a backend with the commands of ``protocol``; nothing else calls one. Records go straight from
the backend into the ring whose memory it was given. All calls come from one thread, except ``cancel``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from draftscope.engine.probes import Fault, ProbeLevel
from draftscope.engine.protocol import (
    ContextSettings,
    DecodeCost,
    DecodeCounts,
    MemoryUse,
    ModelReport,
    ModelSettings,
    SlotFacts,
    SlotResult,
    SlotTask,
)

Progress = Callable[[float, str], bool]
"""Told the fraction in [0, 1] and the stage of a load; answers False to cancel it."""


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """The model's chat template (Jinja) and the texts of its begin and end tokens."""

    template: str
    bos: str
    eos: str


@dataclass(frozen=True, slots=True)
class CheckpointCounts:
    """Checkpoints since the contexts were made."""

    n_saves: int = 0
    n_restores: int = 0
    n_fallbacks: int = 0


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """What a saved slot belongs to: a state fits the model and the library that made it, and no other.

    ``fingerprint``: hex digits that no other model file has; ``library``: name and version of what wrote the state.
    """

    fingerprint: str
    library: str


class Backend(Protocol):
    """One engine with at most one model. Every method may raise ``EngineError``; after that the backend still works."""

    def load(self, model: ModelSettings, context: ContextSettings, progress: Progress) -> ModelReport:
        """Replace what is loaded. A refused or cancelled load (code CANCELLED) leaves nothing loaded."""
        ...

    def configure(self, context: ContextSettings) -> ModelReport:
        """Make new contexts for the loaded model; every slot is empty after it."""
        ...

    def unload(self) -> None:
        """Free everything; harmless when nothing is loaded."""
        ...

    def chat_template(self) -> ChatTemplate | None:
        """The loaded model's template, or None when its file has none."""
        ...

    def tokenize(self, text: str, *, parse_special: bool, add_special: bool) -> tuple[int, ...]:
        """Token ids of a text. ``add_special``: begin-of-sequence where the model wants it."""
        ...

    def submit(self, task: SlotTask, tokens: tuple[int, ...]) -> None:
        """Begin a task with its prompt in tokens; its slot must be free (code BUSY otherwise).

        The prompt is compared with what the slot holds, and what is common is not processed again where the memory
        allows it. A continuation is appended to what the slot holds.
        """
        ...

    def step(self) -> bool:
        """Do the next bounded piece of work: a prefill chunk or a round. True while any slot has work left."""
        ...

    def cancel(self, slots: tuple[int, ...]) -> None:
        """From any thread: end the tasks of these slots (empty: of all) as soon as possible; returns at once."""
        ...

    def take_results(self) -> list[SlotResult]:
        """Results of the tasks that ended since the last call."""
        ...

    def take_pieces(self) -> dict[int, bytes]:
        """Bytes of the tokens that occurred for the first time since the last call."""
        ...

    def decode_counts(self) -> DecodeCounts:
        """Counts since the contexts were made."""
        ...

    def memory_use(self) -> tuple[MemoryUse, ...]:
        """Where memory is now, by kind, saved states at their most; empty where it is not known."""
        ...

    def decode_cost(self) -> DecodeCost:
        """What a target decode costs, as far as the engine has learned."""
        ...

    def checkpoint_counts(self) -> CheckpointCounts:
        """Counts since the contexts were made."""
        ...

    # ---- slots that have no task at work; codes BUSY, UNSUPPORTED and BAD_SETTINGS (numbers) otherwise

    def clear_slot(self, slot: int) -> None:
        """Empty a slot."""
        ...

    def rewind_slot(self, slot: int, n_tokens: int) -> None:
        """Keep the first tokens of a slot only."""
        ...

    def fork_slot(self, slot: int, to: int) -> None:
        """Let another slot hold what this one holds."""
        ...

    def shift_slot(self, slot: int, n_keep: int, n_discard: int) -> None:
        """Drop tokens behind the first ``n_keep`` and move the rest up."""
        ...

    def save_slot(self, slot: int) -> bytes:
        """Everything that the slot holds."""
        ...

    def restore_slot(self, slot: int, state: bytes) -> None:
        """Let the slot hold what ``save_slot`` gave. Refused (BAD_STATE), nothing has changed."""
        ...

    def slot_facts(self, slot: int) -> SlotFacts:
        """What the slot holds, at any time; without tokens and text."""
        ...

    def slot_tokens(self, slot: int) -> tuple[int, ...]:
        """The tokens that the slot holds."""
        ...

    def text_of(self, tokens: tuple[int, ...]) -> str:
        """The text that tokens spell, control tokens by name."""
        ...

    def set_probe(self, level: ProbeLevel, slots: tuple[int, ...]) -> None:
        """Measure restores in these slots (empty: all) at this level, whatever is loaded then."""
        ...

    def inject_fault(self, fault: Fault, slots: tuple[int, ...], layer: int) -> None:
        """Let restores in these slots (empty: all) go wrong, until contexts are made anew; NONE: no more."""
        ...

    def identity(self) -> ModelIdentity:
        """Whose states the loaded model's slots have."""
        ...
