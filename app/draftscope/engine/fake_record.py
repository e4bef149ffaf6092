"""Writes the records of the scripted engine, on a clock that runs by script but never behind the real one."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import Any

from numpy.typing import NDArray

from draftscope.engine.events import (
    ENGINE_TRACK,
    NO_ROUND,
    FallbackReason,
    Kind,
    Mechanism,
    Operation,
    Origin,
    Phase,
    Reuse,
    SlotState,
    StopReason,
    empty_records,
)
from draftscope.engine.fake_text import piece
from draftscope.engine.probes import ArrayKind, SideArray
from draftscope.engine.ring import RingWriter
from draftscope.engine.trace_memory import array_writer

_BYTES_PER_NS = 8
"""How fast operations move states: 8 GB a second."""


class FakeRecorder:
    """Writes records by kind; see ``events.KINDS`` for what the columns mean.

    Attributes:
        now_ns: the scripted time; the methods write records that end at it.
        round: round that records belong to.
    """

    def __init__(self, memory: memoryview) -> None:
        self._ring = RingWriter(memory)
        self._arrays = array_writer(memory)
        self._met: set[int] = set()
        self._new_pieces: dict[int, bytes] = {}
        self._record = empty_records(1)[0]
        self.now_ns = time.monotonic_ns()
        self.round = int(NO_ROUND)

    def catch_up_with_clock(self) -> None:
        """After an idle time: go on from the real clock."""
        self.now_ns = max(self.now_ns, time.monotonic_ns())

    def beat(self) -> None:
        """A sign of life."""
        self._ring.beat()

    def operation(self, phase: Phase) -> None:
        """Say what the engine is at."""
        self._ring.set_operation(phase, self.round)

    def take_pieces(self) -> dict[int, bytes]:
        """Bytes of the tokens that were recorded for the first time since the last call."""
        pieces, self._new_pieces = self._new_pieces, {}
        return pieces

    def forget_pieces(self) -> None:
        """Begin anew, with another model."""
        self._met.clear()
        self._new_pieces.clear()

    def span(self, phase: Phase, slot: int, start_ns: int, position: int, n: int, m: int) -> None:
        """A stretch of time that ends now."""
        self._write(Kind.SPAN, phase, slot, start_ns, self.now_ns - start_ns, position, n=n, m=m)

    def decode(self, phase: Phase, start_ns: int, step: int, n_tokens: int, n_runs: int) -> None:
        """A decode for all slots, on the engine's track, that ends now."""
        self.span(phase, ENGINE_TRACK, start_ns, step, n_tokens, n_runs)

    def round_done(
        self,
        slot: int,
        mechanism: Mechanism,
        start_ns: int,
        n_tokens: int,
        n_drafted: int,
        n_accepted: int,
        tokens_per_second: float,
    ) -> None:
        """A slot's part of a round that ends now."""
        duration = self.now_ns - start_ns
        self._write(
            Kind.ROUND,
            mechanism,
            slot,
            start_ns,
            duration,
            n_tokens,
            n=n_drafted,
            m=n_accepted,
            value=tokens_per_second,
        )

    def token(
        self, slot: int, origin: Origin, position: int, token: int, draft_position: int, chosen: int, probability: float
    ) -> None:
        """A token, however it came."""
        self._write(
            Kind.TOKEN,
            origin,
            slot,
            self.now_ns,
            0,
            position,
            token=token,
            n=draft_position,
            m=chosen,
            value=probability,
        )
        self._meet((token, chosen))

    def _meet(self, tokens: Iterable[int]) -> None:
        """Tell the bytes of those that did not occur yet."""
        for token in tokens:
            if token >= 0 and token not in self._met:
                self._met.add(token)
                self._new_pieces[token] = piece(token)

    def save(self, slot: int, mechanism: Mechanism, start_ns: int, position: int, epoch: int, size_bytes: int) -> None:
        """A checkpoint was saved, until now."""
        duration = self.now_ns - start_ns
        self._write(Kind.SAVE, mechanism, slot, start_ns, duration, position, n=epoch, size_bytes=size_bytes)
        self.span(Phase.SAVE, slot, start_ns, position, 0, 0)

    def restore(
        self, slot: int, mechanism: Mechanism, start_ns: int, position: int, epoch: int, n_replay: int, size_bytes: int
    ) -> None:
        """The slot went back, until now."""
        duration = self.now_ns - start_ns
        self._write(
            Kind.RESTORE, mechanism, slot, start_ns, duration, position, n=epoch, m=n_replay, size_bytes=size_bytes
        )
        self.span(Phase.RESTORE, slot, start_ns, position, n_replay, 0)

    def fallback(self, slot: int, reason: FallbackReason, position: int, asked: Mechanism, used: Mechanism) -> None:
        """Another way back than asked for was taken."""
        self._write(Kind.FALLBACK, reason, slot, self.now_ns, 0, position, n=asked, m=used)

    def slot_state(self, slot: int, state: SlotState, n_tokens: int, reason: StopReason, n_generated: int) -> None:
        """The slot has entered a state."""
        self._write(Kind.SLOT, state, slot, self.now_ns, 0, n_tokens, n=reason, m=n_generated)

    def operation_done(
        self, slot: int, operation: Operation, n_tokens: int, n: int, reuse: Reuse, size_bytes: int
    ) -> None:
        """An operation on a slot; where bytes are moved, it took a while until now, by script."""
        duration = size_bytes // _BYTES_PER_NS
        start_ns = self.now_ns
        self.now_ns += duration
        self._write(Kind.OPERATION, operation, slot, start_ns, duration, n_tokens, n=n, m=reuse, size_bytes=size_bytes)

    def row(self, slot: int, fault: int, expected: int, found: int, n_waiting: int) -> None:
        """A draft begins from the hidden row of position ``found``, and should from that of ``expected``."""
        self._write(Kind.ROW, fault, slot, self.now_ns, 0, expected, n=found, m=n_waiting)

    def array(self, t_start_ns: int, kind: ArrayKind, values: NDArray[Any]) -> None:
        """A side array of the probe that began then."""
        if kind in (ArrayKind.TOP_TOKENS, ArrayKind.DRAFT_TOKENS):
            self._meet(values.reshape(-1).tolist())
        if self._arrays is not None:
            self._arrays.append(SideArray(t_start_ns, kind, values))

    def _write(
        self,
        kind: Kind,
        code: int,
        slot: int,
        start_ns: int,
        duration_ns: int,
        position: int,
        *,
        token: int = -1,
        n: int = 0,
        m: int = 0,
        value: float = math.nan,
        size_bytes: int = 0,
    ) -> None:
        record = self._record
        record["t_start_ns"], record["duration_ns"], record["round"], record["slot"] = (
            start_ns,
            duration_ns,
            self.round,
            slot,
        )
        record["kind"], record["code"], record["position"], record["token"] = kind, code, position, token
        record["n"], record["m"], record["value"], record["size_bytes"] = n, m, value, size_bytes
        self._ring.append(record)
