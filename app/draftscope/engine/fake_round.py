"""One round of the scripted engine, step by step as in the native core: draft, checkpoint, verify, accept, go back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from draftscope.engine.events import NO_ROUND, FallbackReason, Mechanism, Origin, Phase, SlotState, StopReason
from draftscope.engine.fake_costs import STATE_BYTES
from draftscope.engine.fake_probes import FakeProbes
from draftscope.engine.fake_record import FakeRecorder
from draftscope.engine.fake_slot import FakeSlot
from draftscope.engine.probes import RestoreKind
from draftscope.engine.protocol import CatchUp, ContextSettings, DecodeCost

MAX_RIDING_REPLAY = 2
"""Replayed tokens that ride with the next verification; more are decoded alone."""

_SAVING = (Mechanism.COW, Mechanism.DEVICE, Mechanism.HOST)
_NO_MEMORY_EVERY = 97
_INSTEAD = {Mechanism.DEVICE: Mechanism.HOST, Mechanism.HOST: Mechanism.NONE}

# Parts of a round's time: a draft step, the verification and what each of its rows adds, and so on.
_DRAFT, _VERIFY, _ROW, _ACCEPT, _REPLAY, _CATCH_UP, _DROP_TAIL = 0.07, 0.4, 0.004, 0.004, 0.2, 0.06, 0.001
_SAVE = {Mechanism.COW: 0.0005, Mechanism.DEVICE: 0.02, Mechanism.HOST: 0.03}
_RESTORE = {Mechanism.COW: 0.001, Mechanism.DEVICE: 0.018, Mechanism.HOST: 0.025}


@dataclass(slots=True)
class _Entry:
    """A slot's part of a round; ``draft`` holds (token, probability) by draft position."""

    slot: FakeSlot
    draft: list[tuple[int, float]]


class FakeRound:
    """Runs rounds.

    Args:
        unit_ns: how long a round takes, about.
        pace: waits until the scripted time has come.
        is_cancelled: whether a slot's task is to end.
    """

    def __init__(
        self,
        recorder: FakeRecorder,
        probes: FakeProbes,
        context: ContextSettings,
        mechanism: Mechanism,
        unit_ns: int,
        pace: Callable[[], None],
        is_cancelled: Callable[[int], bool],
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._recorder = recorder
        self._probes = probes
        self._context = context
        self._mechanism = mechanism
        self._unit_ns = unit_ns
        self._pace = pace
        self._is_cancelled = is_cancelled

    def prefill(self, slots: list[FakeSlot]) -> None:
        """Decode the next chunk of every prompt; those that are read to their end sample their first token."""
        share = max(1, self._context.n_batch // len(slots))
        chunks = [(slot, min(share, slot.held.stop_before(slot.n_prompt) - slot.n_decoded)) for slot in slots]
        n_tokens = sum(n for _, n in chunks)
        start_ns = self._spend(Phase.PROMPT, 0.3 + 0.004 * n_tokens)
        self._decoded(Phase.PROMPT, start_ns, 0, n_tokens, 1)
        for slot, n in chunks:
            self._recorder.span(Phase.PROMPT, slot.id, start_ns, slot.n_decoded, n, 0)
            slot.n_decoded += n
            slot.save_prompt()
            if self._is_cancelled(slot.id):
                slot.end(StopReason.CANCELLED)
            elif slot.n_decoded == slot.n_prompt:
                slot.enter(SlotState.GENERATING)
                self._sample(slot)

    def run(self, slots: list[FakeSlot]) -> None:
        """One round of the slots that generate."""
        self._recorder.round = self.counts["rounds"]
        self.counts["rounds"] += 1
        start_ns = self._recorder.now_ns
        entries = self._draft(slots)
        self._replay_alone(entries)
        self._save(entries)
        self._verify(entries)
        for entry in entries:
            if self._is_cancelled(entry.slot.id):
                entry.slot.end(StopReason.CANCELLED)
            else:
                self._accept(entry, start_ns)
        self._recorder.round = int(NO_ROUND)

    def decode_cost(self) -> DecodeCost:
        """What a decode costs by script."""
        unit_us = self._unit_ns / 1e3
        return DecodeCost(self.counts["target"], _VERIFY * unit_us, _ROW * unit_us)

    # ---- steps

    def _draft(self, slots: list[FakeSlot]) -> list[_Entry]:
        entries = [_Entry(slot, []) for slot in slots]
        start_ns = self._recorder.now_ns
        for slot in slots:
            self._probes.draft_begins(slot)
        if self._context.n_draft_max and self._context.catch_up is CatchUp.ALONE:
            self._decoded(Phase.CATCH_UP, self._spend(Phase.CATCH_UP, _CATCH_UP), 0, 2 * len(slots), 1)
        for step in range(self._context.n_draft_max):
            step_ns = self._spend(Phase.DRAFT, _DRAFT)
            self._decoded(Phase.DRAFT, step_ns, step, len(slots) * (2 if step == 0 else 1), 1)
            for entry in entries:
                entry.draft.append(entry.slot.guess(step + 1))
        for entry in entries:
            if entry.draft:
                slot = entry.slot
                self._recorder.span(Phase.DRAFT, slot.id, start_ns, len(slot.tokens), len(entry.draft), 0)
        return entries

    def _replay_alone(self, entries: list[_Entry]) -> None:
        behind = [entry.slot for entry in entries if self._n_replay(entry.slot) > MAX_RIDING_REPLAY]
        if behind:
            start_ns = self._spend(Phase.REPLAY, _REPLAY)
            self._decoded(Phase.REPLAY, start_ns, 0, sum(self._n_replay(slot) for slot in behind), 1)
            for slot in behind:
                n = self._n_replay(slot)
                self._recorder.span(Phase.REPLAY, slot.id, start_ns, slot.n_decoded, n, n)
                slot.n_decoded += n

    def _save(self, entries: list[_Entry]) -> None:
        if self._mechanism not in _SAVING:
            return
        for entry in entries:
            slot = entry.slot
            if not entry.draft or slot.saved_at == slot.n_decoded:
                continue
            way = self._way_of_save(slot)
            if way is Mechanism.NONE:
                entry.draft.clear()
                continue
            start_ns = self._spend(Phase.SAVE, _SAVE[way])
            slot.saved_at, slot.saved_by = slot.n_decoded, way
            slot.epoch += 1
            self.counts["n_saves"] += 1
            self._recorder.save(slot.id, way, start_ns, slot.n_decoded, slot.epoch, STATE_BYTES)

    def _way_of_save(self, slot: FakeSlot) -> Mechanism:
        """Now and then there is no room: a slot leaves device memory until its task ends, or a round has no draft."""
        instead = _INSTEAD.get(self._mechanism)
        if slot.has_left_device:
            return Mechanism.HOST
        if instead is None or (self._recorder.round * 7 + slot.id) % _NO_MEMORY_EVERY < _NO_MEMORY_EVERY - 1:
            return self._mechanism
        self.counts["n_fallbacks"] += 1
        self._recorder.fallback(slot.id, FallbackReason.NO_MEMORY, slot.n_decoded, self._mechanism, instead)
        slot.has_left_device = self._mechanism is Mechanism.DEVICE
        return instead

    def _verify(self, entries: list[_Entry]) -> None:
        sizes = [self._n_replay(entry.slot) + 1 + len(entry.draft) for entry in entries]
        start_ns = self._spend(Phase.VERIFY, _VERIFY + _ROW * sum(sizes))
        n_runs = len(set(sizes)) if self._mechanism in _SAVING else 1  # recurrent batches are split into equal parts
        self._decoded(Phase.VERIFY, start_ns, 0, sum(sizes), n_runs)
        self.counts["rides"] += any(self._n_replay(entry.slot) for entry in entries)
        for entry, size in zip(entries, sizes, strict=True):
            slot = entry.slot
            self._recorder.span(Phase.VERIFY, slot.id, start_ns, slot.n_decoded, size, self._n_replay(slot))

    def _accept(self, entry: _Entry, round_ns: int) -> None:
        slot, draft, n_before, n_accepted = entry.slot, entry.draft, len(entry.slot.tokens), 0
        start_ns = self._spend(Phase.ACCEPT, _ACCEPT)
        has_ended = False
        for position, (token, probability) in enumerate(draft):
            if has_ended or token != slot.due():
                break
            self._recorder.token(slot.id, Origin.ACCEPTED, len(slot.tokens), token, position + 1, -1, probability)
            n_accepted += 1
            has_ended = slot.emit(token, self._context.n_ctx)
        if not has_ended:
            self._reject(slot, draft, n_accepted, n_before)
            has_ended = self._sample(slot)
        slot.count_round(len(draft), n_accepted)
        self._recorder.span(Phase.ACCEPT, slot.id, start_ns, n_before, len(draft), n_accepted)
        if not has_ended:
            slot.n_rows_waiting = n_accepted + 1
            self._go_back(slot, n_before + n_accepted, n_before + len(draft))
        self._recorder.round_done(
            slot.id, self._mechanism, round_ns, len(slot.tokens), len(draft), n_accepted, slot.tokens_per_second
        )

    def _reject(self, slot: FakeSlot, draft: list[tuple[int, float]], n_accepted: int, n_before: int) -> None:
        for position in range(n_accepted, len(draft)):
            token, probability = draft[position]
            chosen = slot.due() if position == n_accepted else -1
            self._recorder.token(
                slot.id, Origin.REJECTED, n_before + position, token, position + 1, chosen, probability
            )

    def _sample(self, slot: FakeSlot) -> bool:
        token = slot.due()
        self._recorder.token(slot.id, Origin.SAMPLED, len(slot.tokens), token, 0, -1, slot.certainty())
        return slot.emit(token, self._context.n_ctx)

    def _go_back(self, slot: FakeSlot, n_keep: int, n_verified: int) -> None:
        """Keep the first ``n_keep`` of the tokens that were verified."""
        slot.has_right_row()
        if n_keep == n_verified:
            slot.n_decoded = n_keep
            return
        saves = self._mechanism in _SAVING
        way = slot.saved_by if saves else self._mechanism
        start_ns = self._spend(Phase.RESTORE, _RESTORE.get(way, _DROP_TAIL))
        slot.n_decoded = slot.saved_at if saves else n_keep
        self.counts["n_restores"] += 1
        epoch, size = (slot.epoch, STATE_BYTES) if saves else (0, 0)
        n_replay = n_keep - slot.n_decoded
        self._recorder.restore(slot.id, way, start_ns, slot.n_decoded, epoch, n_replay, size)
        self._probes.restored(slot, RestoreKind.REJECTION, way, n_replay, row=n_keep - 1, without=n_verified - 1)

    # ---- accounting

    def _n_replay(self, slot: FakeSlot) -> int:
        return len(slot.tokens) - 1 - slot.n_decoded

    def _spend(self, phase: Phase, share: float) -> int:
        """Let the scripted time of a piece of work pass; when it began."""
        start_ns = self._recorder.now_ns
        self._recorder.operation(phase)
        uneven = 0.9 + 0.2 * ((start_ns >> 7) % 1024 / 1024)  # no two pieces of work take the same time
        self._recorder.now_ns += max(1, int(self._unit_ns * share * uneven))
        if phase in (Phase.PROMPT, Phase.VERIFY):
            self._pace()
        return start_ns

    def _decoded(self, phase: Phase, start_ns: int, step: int, n_tokens: int, n_runs: int) -> None:
        self._recorder.decode(phase, start_ns, step, n_tokens, n_runs)
        names = {
            Phase.PROMPT: ("prompt",),
            Phase.VERIFY: ("target",),
            Phase.REPLAY: ("target", "replay"),
            Phase.DRAFT: ("draft",),
            Phase.CATCH_UP: ("draft", "catch_up"),
        }[phase]
        self.counts.update(names)
        self.counts[f"{names[0]}_graph_runs"] += n_runs
