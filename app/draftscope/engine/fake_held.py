"""What a slot of the scripted engine holds, also when its task has ended: tokens, prompt checkpoints, and its text."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.events import Reuse
from draftscope.engine.fake_text import Continuation, continuation, piece

_MARK = "scripted"
_REFUSED_TEXT = "fake:refuse-state"


@dataclass(eq=False)
class FakeHeld:
    """The memory of one slot.

    ``n_decoded`` of ``tokens`` are in the target's memory. The text that the slot says goes on from the first
    ``n_before_text`` tokens. Memory that ``can_drop_tail`` needs no ``checkpoints``, which are positions; other memory
    keeps at most ``max_checkpoints`` of ``state_bytes`` each, ``spacing`` tokens apart and at the end of a prompt.
    """

    can_drop_tail: bool
    state_bytes: int
    spacing: int
    max_checkpoints: int
    tokens: list[int] = field(default_factory=list)
    n_decoded: int = 0
    checkpoints: list[int] = field(default_factory=list)
    n_before_text: int = 0
    seed: int = 0
    _text: Continuation | None = None

    @property
    def text(self) -> Continuation:
        """What is said after the first ``n_before_text`` tokens."""
        if self._text is None:
            self._text = continuation(tuple(self.tokens[: self.n_before_text]), self.seed)
        return self._text

    @property
    def n_said(self) -> int:
        """Tokens of ``text`` that were said already."""
        return len(self.tokens) - self.n_before_text

    @property
    def checkpoint_bytes(self) -> int:
        """Bytes of the prompt checkpoints."""
        return len(self.checkpoints) * self.state_bytes

    def begin(self, prompt: tuple[int, ...], seed: int, *, may_reuse: bool) -> tuple[int, Reuse]:
        """Hold a prompt instead; how many of its tokens were there already, and why no more."""
        n_reused, reuse = self._reusable(prompt) if may_reuse else (0, Reuse.TURNED_OFF)
        if list(prompt) != self.tokens or seed != self.seed:  # else the text just goes on
            self.n_before_text, self.seed, self._text = len(prompt), seed, None
        self.tokens = list(prompt)
        self._forget_after(n_reused)
        return n_reused, reuse

    def _reusable(self, prompt: tuple[int, ...]) -> tuple[int, Reuse]:
        if self.n_decoded == 0:
            return 0, Reuse.NONE
        pairs = zip(self.tokens[: self.n_decoded], prompt[:-1], strict=False)  # the last one is decoded for its row
        n_common = next((n for n, (held, wanted) in enumerate(pairs) if held != wanted), None)
        if n_common is None:
            n_common = min(self.n_decoded, len(prompt) - 1)
        if n_common == self.n_decoded:
            return n_common, Reuse.KEPT
        if n_common == 0:
            return 0, Reuse.NOTHING_COMMON
        if self.can_drop_tail:
            return n_common, Reuse.TAIL_DROPPED
        restored = max((at for at in self.checkpoints if at <= n_common), default=0)
        return restored, Reuse.RESTORED if restored else Reuse.NO_CHECKPOINT

    def _forget_after(self, n_decoded: int) -> None:
        self.n_decoded = n_decoded
        self.checkpoints = [at for at in self.checkpoints if at <= n_decoded]

    def stop_before(self, n_tokens: int) -> int:
        """Where to stop on the way to so many decoded tokens: where a checkpoint is due, or there."""
        due = (self.n_decoded // self.spacing + 1) * self.spacing
        return n_tokens if self.can_drop_tail else min(n_tokens, due)

    def save_prompt(self, *, is_last: bool) -> tuple[bool, int]:
        """Keep a checkpoint at ``n_decoded`` where one is due; whether, and how many older ones made room for it."""
        newest = self.checkpoints[-1] if self.checkpoints else 0
        is_due = is_last or self.n_decoded - newest >= self.spacing
        if self.can_drop_tail or not is_due or self.max_checkpoints == 0 or self.n_decoded <= newest:
            return False, 0
        n_before = len(self.checkpoints) + 1
        self.checkpoints = [*self.checkpoints, self.n_decoded][-self.max_checkpoints :]
        return True, n_before - len(self.checkpoints)

    def clear(self) -> None:
        """Hold nothing."""
        self.tokens, self._text, self.n_before_text, self.seed = [], None, 0, 0
        self._forget_after(0)

    def rewind(self, n_tokens: int) -> int:
        """Hold the first tokens only; how many of them are still in the target's memory."""
        is_kept = n_tokens >= self.n_decoded or self.can_drop_tail
        n_decoded = (
            min(n_tokens, self.n_decoded)
            if is_kept
            else max((at for at in self.checkpoints if at <= n_tokens), default=0)
        )
        del self.tokens[n_tokens:]
        if n_tokens < self.n_before_text:
            self.n_before_text, self._text = n_tokens, None
        self._forget_after(n_decoded)
        return n_decoded

    def take(self, other: FakeHeld) -> None:
        """Hold what another slot holds."""
        self.tokens, self.checkpoints = list(other.tokens), list(other.checkpoints)
        self.n_decoded, self.n_before_text, self.seed = other.n_decoded, other.n_before_text, other.seed
        self._text = other._text

    def shift(self, n_keep: int, n_discard: int) -> None:
        """Drop tokens behind the first ``n_keep``.

        Raises:
            EngineError: UNSUPPORTED, when the memory is recurrent.
        """
        if not self.can_drop_tail:
            what = "A recurrent state cannot forget tokens in its middle, so the context cannot be shifted."
            raise EngineError(ErrorCode.UNSUPPORTED, what, "Clear the slot, or load with a larger context.")
        del self.tokens[n_keep : n_keep + n_discard]
        self._forget_after(max(min(self.n_decoded, n_keep), self.n_decoded - n_discard))
        self.n_before_text, self._text = len(self.tokens), None

    def dump(self) -> bytes:
        """Everything, as bytes."""
        fields = {"tokens": self.tokens, "n_decoded": self.n_decoded, "n_before_text": self.n_before_text}
        return json.dumps({"mark": _MARK, "seed": self.seed} | fields).encode()

    def load(self, state: bytes) -> None:
        """Hold what ``dump`` gave.

        Raises:
            EngineError: BAD_STATE, when it is something else, or is to be refused by script; nothing has changed.
        """
        try:
            fields = json.loads(state)
            if fields["mark"] != _MARK:
                raise ValueError(fields["mark"])
            tokens = [int(token) for token in fields["tokens"]]
            numbers = [int(fields[name]) for name in ("n_decoded", "n_before_text", "seed")]
            text = b"".join(map(piece, tokens)).decode("utf-8", "replace")
        except (ValueError, KeyError, TypeError, IndexError) as error:
            what = "The state is none of this engine's: it does not begin as one does."
            raise EngineError(ErrorCode.BAD_STATE, what, "Save the slot again.") from error
        if _REFUSED_TEXT in text:
            what = "The state's hidden rows are another model's: 1024 wide where this one's are 2048."
            raise EngineError(ErrorCode.BAD_STATE, what, "Load that model, then restore it.")
        self.clear()
        self.tokens = tokens
        self.n_decoded, self.n_before_text, self.seed = numbers
