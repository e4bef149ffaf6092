"""A slot of the scripted engine: what it was asked, what it has said, and what it will say next."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from draftscope.engine.events import Mechanism, Operation, Reuse, SlotState, StopReason
from draftscope.engine.fake_held import FakeHeld
from draftscope.engine.fake_record import FakeRecorder
from draftscope.engine.fake_text import EOS, N_VOCAB, piece
from draftscope.engine.protocol import SlotResult, SlotTask

SLOT_SKILL = (1.0, 0.84, 1.06, 0.94, 0.8, 1.04, 0.7, 0.97)
"""How well each slot's drafts guess, relative to its text: the slots are to look different."""


_SKILL_FROM_WRONG_ROW = 0.45
"""What is left of that where a fault gave the draft another row."""


@dataclass(eq=False)
class FakeSlot:
    """Slot ``id``; what it holds, ``held``, outlives its task.

    ``row_in_use``: position whose hidden row the next draft goes on from, where a fault made it another than the right
    one; such drafts, and those of a companion that was left behind, guess worse. ``n_rows_waiting``: for the draft.
    """

    id: int
    recorder: FakeRecorder
    held: FakeHeld
    state: SlotState = SlotState.IDLE
    n_prompt: int = 0
    n_reused: int = 0
    reuse: Reuse = Reuse.NONE
    epoch: int = 0
    saved_at: int = -1
    saved_by: Mechanism = Mechanism.NONE
    has_left_device: bool = False
    row_in_use: int | None = None
    is_companion_behind: bool = False
    n_rows_waiting: int = 1
    n_rounds: int = 0
    accepted_at: list[int] = field(default_factory=list)
    drafted_at: list[int] = field(default_factory=list)
    _end: tuple[StopReason, str, int] | None = None

    def start(self, task: SlotTask, tokens: tuple[int, ...], n_draft_max: int) -> None:
        """Begin a task, from what the slot holds as far as that is the same."""
        seed = task.sampling.seed if task.sampling.temperature > 0 else 0
        prompt = (*self.held.tokens, *tokens) if task.prompt.is_continuation else tokens
        self.task = task
        self.n_reused, self.reuse = self.held.begin(prompt, seed, may_reuse=task.reuse)
        self.n_prompt, self.n_rounds, self.saved_at = len(prompt), 0, -1
        self.accepted_at, self.drafted_at = [0] * n_draft_max, [0] * n_draft_max
        self._end, self.has_left_device = None, False
        self.has_right_row()
        self.submitted_ns = self.first_token_ns = self.last_token_ns = self.recorder.now_ns
        self._random = random.Random(f"{self.id}/{seed}/{prompt}")
        self._said = b""
        self.record(Operation.SUBMIT, self.n_reused, self.reuse)
        if self.reuse is Reuse.RESTORED:
            self.record(Operation.PROMPT_RESTORE, self.n_reused, self.reuse, self.held.state_bytes)
        self.enter(SlotState.PROMPT)

    def record(self, operation: Operation, n: int = 0, reuse: Reuse = Reuse.NONE, size_bytes: int = 0) -> None:
        """Put an operation on record."""
        self.recorder.operation_done(self.id, operation, len(self.tokens), n, reuse, size_bytes)

    @property
    def tokens(self) -> list[int]:
        """Prompt and text, as far as it was said."""
        return self.held.tokens

    @property
    def n_decoded(self) -> int:
        """Tokens of ``tokens`` that are in the target's memory; the rest is pending."""
        return self.held.n_decoded

    @n_decoded.setter
    def n_decoded(self, n: int) -> None:
        self.held.n_decoded = n

    def save_prompt(self) -> None:
        """Keep a prompt checkpoint of where the prompt has been read to, where the memory needs one."""
        saved, n_evicted = self.held.save_prompt(is_last=self.n_decoded == self.n_prompt)
        for _ in range(n_evicted):
            self.record(Operation.PROMPT_EVICT, size_bytes=self.held.state_bytes)
        if saved:
            self.record(Operation.PROMPT_SAVE, self.n_decoded, size_bytes=self.held.state_bytes)

    @property
    def is_active(self) -> bool:
        """Whether its task has not ended."""
        return self.state in (SlotState.PROMPT, SlotState.GENERATING)

    @property
    def n_generated(self) -> int:
        """Tokens generated so far."""
        return len(self.tokens) - self.n_prompt

    @property
    def tokens_per_second(self) -> float:
        """Of the generation, from the first token to the last."""
        seconds = (self.last_token_ns - self.first_token_ns) / 1e9
        return (self.n_generated - 1) / seconds if seconds > 0 else 0.0

    def enter(self, state: SlotState, reason: StopReason = StopReason.NONE) -> None:
        """Change the state, on record."""
        self.state = state
        n = self.n_generated
        self.recorder.slot_state(self.id, state, len(self.tokens), reason, n)

    def due(self, ahead: int = 0) -> int:
        """The token that the target chooses next, or ``ahead`` tokens later."""
        said, index = self.held.text.tokens, self.held.n_said + ahead
        if self.task.ignore_eos:  # over and over, without the end
            return said[index % (len(said) - 1)]
        return said[min(index, len(said) - 1)]

    def has_right_row(self) -> None:
        """What was decoded last gave the row that the next draft goes on from."""
        self.row_in_use, self.is_companion_behind = None, False

    def foresee(self, n_draft: int, is_wrong: bool) -> list[tuple[int, float]]:
        """What would be drafted now; nothing is changed by it."""
        state, kept = self._random.getstate(), (self.row_in_use, self.is_companion_behind)
        self.row_in_use, self.is_companion_behind = None, is_wrong
        draft = [self.guess(position + 1) for position in range(n_draft)]
        self._random.setstate(state)
        self.row_in_use, self.is_companion_behind = kept
        return draft

    def guess(self, position: int) -> tuple[int, float]:
        """A drafted token for draft position ``position`` from 1, and its probability under the draft."""
        skill = self.held.text.predictability * SLOT_SKILL[self.id % len(SLOT_SKILL)]
        if self.row_in_use is not None or self.is_companion_behind:
            skill *= _SKILL_FROM_WRONG_ROW
        chance = min(0.97, skill) * 0.96 ** (position - 1)
        token = self.due(position - 1)
        if self._random.random() < chance:
            return token, self._random.uniform(0.45, 0.999)
        other = self._random.randrange(260, N_VOCAB)
        return (other if other != token else 260 + (other - 259) % (N_VOCAB - 260)), self._random.uniform(0.12, 0.6)

    def certainty(self) -> float:
        """A probability of a sampled token under the target."""
        return self._random.uniform(0.25, 0.99)

    def emit(self, token: int, n_ctx: int) -> bool:
        """Say a token; True when the task ends with it."""
        self.tokens.append(token)
        self.last_token_ns = self.recorder.now_ns
        if self.n_generated == 1:
            self.first_token_ns = self.last_token_ns
        if token != EOS:
            self._said += piece(token)
        reason = self._reason_to_stop(token, n_ctx)
        if reason is not StopReason.NONE:
            self.end(reason)
        return reason is not StopReason.NONE

    def _reason_to_stop(self, token: int, n_ctx: int) -> StopReason:
        if token == EOS and not self.task.ignore_eos:
            return StopReason.END_OF_GENERATION
        for stop in self.task.stop:
            if stop and (found := self._said.find(stop.encode())) >= 0:
                self._said = self._said[:found]
                return StopReason.STOP_STRING
        if self.n_generated >= self.task.max_tokens:
            return StopReason.MAX_TOKENS
        return StopReason.CONTEXT_FULL if len(self.tokens) >= n_ctx else StopReason.NONE

    def count_round(self, n_drafted: int, n_accepted: int) -> None:
        """Note a round that this slot took part in."""
        self.n_rounds += 1
        for position in range(n_drafted):
            self.drafted_at[position] += 1
            self.accepted_at[position] += position < n_accepted

    def end(self, reason: StopReason, error: str = "") -> None:
        """End the task; its result is there, once the round that it ended in is counted."""
        self._end = (reason, error, self.recorder.now_ns)
        self.saved_at = -1
        self.enter(SlotState.DONE, reason)
        self.record(Operation.CANCEL if reason is StopReason.CANCELLED else Operation.RELEASE)
        if self.n_generated == 0:  # of a prompt that was not read to its end, the slot holds what was
            del self.tokens[self.n_decoded :]

    def take_result(self) -> SlotResult | None:
        """The result of a task that ended, once."""
        if self._end is None:
            return None
        (reason, error, ended_ns), self._end = self._end, None
        has_said = self.n_generated > 0
        until_first_ns = (self.first_token_ns if has_said else ended_ns) - self.submitted_ns
        return SlotResult(
            slot=self.id,
            text=self._said.decode("utf-8", "replace"),
            tokens=tuple(self.tokens[self.n_prompt :]),
            n_prompt=self.n_prompt,
            n_rounds=self.n_rounds,
            draft_n=sum(self.drafted_at),
            draft_n_accepted=sum(self.accepted_at),
            accepted_at=tuple(self.accepted_at),
            drafted_at=tuple(self.drafted_at),
            ttft_ms=until_first_ns / 1e6 if has_said else 0.0,
            prompt_ms=until_first_ns / 1e6,
            generate_ms=(self.last_token_ns - self.first_token_ns) / 1e6 if has_said else 0.0,
            stop=reason.name.lower(),
            error=error,
            n_reused=self.n_reused,
            reuse=self.reuse.name.lower(),
        )
