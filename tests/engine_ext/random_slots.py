"""Tasks come and go at random in all slots of an engine, and what it asks of the library fails at random.

    python -m tests.engine_ext.random_slots MODEL --mode cow --slots 4 --steps 200 --seed 1

prints as JSON what happened, on the library that this process's ``llama_cpp`` brings: see ``Outcome``.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
from collections import Counter
from pathlib import Path

import numpy as np

from draftscope.engine.events import FallbackReason, Kind
from draftscope.engine.library import engine_facts
from draftscope.engine.protocol import CheckpointMode, ContextSettings, Prompt, Replay, SlotTask
from tests.engine_ext.harness import GREEDY, Bench, open_bench

FAULTS = ("save", "restore", "drop_tail", "device_room", "lost")
# Batches of other shapes round differently, up to 0.006 on the random models; a wrong state is off by 0.2 or more.
NEAR_TIE = 0.02

Tokens = tuple[int, ...]


@dataclasses.dataclass
class Outcome:
    """``wrong``: tokens that plain decoding does not write, in words; ``n_ties``: tokens that it nearly writes."""

    granted: str = ""
    n_patches: int = 0
    n_tasks: int = 0
    n_tokens: int = 0
    n_cancelled: int = 0
    n_saves: int = 0
    n_restores: int = 0
    n_ties: int = 0
    largest_tie: float = 0.0
    fallbacks: dict[str, int] = dataclasses.field(default_factory=dict)
    wrong: list[str] = dataclasses.field(default_factory=list)


class Plain:
    """What plain decoding writes, one task at a time in a context of one slot."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self._written: dict[Tokens, Tokens] = {}

    def continues(self, prompt: Tokens, n: int) -> Tokens:
        """The next ``n`` tokens behind a prompt."""
        if len(self._written.get(prompt, ())) < n:
            self.bench.submit(SlotTask(0, Prompt(), GREEDY, n, ignore_eos=True, reuse=False), prompt)
            self._written[prompt] = self.bench.finish()[0].tokens
        return self._written[prompt][:n]

    def gap(self, tokens: Tokens, chosen: int, other: int) -> float:
        """How far apart the logits of two tokens are behind these.

        0 where it is less than plain decoding itself differs by, between all tokens in one decode and one at a time.
        """
        cuts = ([len(tokens)], [1] * len(tokens))
        whole, single = (np.array(self.bench.backend._engine.logits_of(0, list(tokens), cut)) for cut in cuts)
        rounding = float(np.abs(whole - single).max())
        least = float(min(abs(logits[chosen] - logits[other]) for logits in (whole, single)))
        return 0.0 if least <= rounding else least

    def check(self, prompt: Tokens, written: Tokens, outcome: Outcome) -> None:
        """Compare to the end; behind a near-tie with what plain decoding makes of the same beginning."""
        start = 0
        while start < len(written):
            begun = prompt + written[:start]
            expected = self.continues(begun, len(written) - start)
            same = next((i for i, token in enumerate(expected) if token != written[start + i]), len(expected))
            if same == len(expected):
                return
            gap = self.gap(begun + expected[:same], expected[same], written[start + same])
            outcome.largest_tie = max(outcome.largest_tie, gap)
            if gap > NEAR_TIE:
                outcome.wrong.append(f"{len(prompt)} + {start + same} tokens: {gap:.3f} between the two logits")
                return
            outcome.n_ties += 1
            start += same + 1


def prompts(die: random.Random) -> list[Tokens]:
    """Six prompts of up to three chunks, all within a vocabulary of 200 tokens; the last two begin alike."""
    drawn = [tuple(die.randrange(5, 195) for _ in range(n)) for n in (1, 4, 17, 90, 41)]
    return [*drawn, drawn[-1][:30] + tuple(die.randrange(5, 195) for _ in range(9))]


def disturb(bench: Bench, mode: CheckpointMode, slots: dict[int, Tokens], n_slots: int, die: random.Random) -> int:
    """Before a step: perhaps tasks for free slots, a cancelled one, and faults. Returns how many were cancelled."""
    texts = prompts(random.Random(0))
    for slot in range(n_slots):
        if slot not in slots and die.random() < 0.4:
            slots[slot] = die.choice(texts)
            bench.submit(SlotTask(slot, Prompt(), GREEDY, die.randrange(1, 48), ignore_eos=True), slots[slot])
    if die.random() < 0.25:
        # Native rollback saves nothing until a drop is refused.
        faults = (*FAULTS, "drop_tail", "drop_tail") if mode is CheckpointMode.ROLLBACK else FAULTS
        bench.backend._engine.inject_faults(**{die.choice(faults): die.randrange(1, 3)})
    if slots and die.random() < 0.1:
        bench.backend.cancel((die.choice(sorted(slots)),))
        return 1
    return 0


def run_randomly(model: Path, mode: CheckpointMode, n_slots: int, n_steps: int, seed: int) -> Outcome:
    """So many steps, then to the end without faults; every task's tokens are checked against plain decoding."""
    die, outcome = random.Random(seed), Outcome(n_patches=len(engine_facts().patches))
    slots: dict[int, Tokens] = {}
    ended: list[tuple[Tokens, Tokens]] = []
    # By measured cost the batches, and so the course of events, would differ from run to run.
    replay = die.choice((Replay.RIDE, Replay.ALONE))
    context = ContextSettings(n_slots=n_slots, n_ctx=256, n_batch=64, checkpoint=mode, replay=replay, n_threads=1)
    with open_bench(model, context) as bench:
        outcome.granted = bench.backend.configure(context).way_back.granted
        for step in range(n_steps + 1):
            if step < n_steps:
                outcome.n_cancelled += disturb(bench, mode, slots, n_slots, die)
                bench.backend.step()
            else:
                while bench.backend.step():
                    pass
            for result in bench.backend.take_results():
                ended.append((slots.pop(result.slot), result.tokens))
                if result.error:
                    outcome.wrong.append(result.error)
        counts, records = bench.backend.checkpoint_counts(), bench.ring.read()
    outcome.n_saves, outcome.n_restores = counts.n_saves, counts.n_restores
    reasons = records[records["kind"] == Kind.FALLBACK]["code"].tolist()
    outcome.fallbacks = dict(Counter(FallbackReason(code).name for code in reasons))
    outcome.n_tasks, outcome.n_tokens = len(ended), sum(len(written) for _, written in ended)
    with open_bench(model, ContextSettings(n_slots=1, n_ctx=256, use_mtp=False, n_threads=1)) as bench:
        plain = Plain(bench)
        for prompt, written in ended:
            plain.check(prompt, written, outcome)
    return outcome


def main() -> None:
    """One run as the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--mode", type=CheckpointMode, required=True)
    parser.add_argument("--slots", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    asked = parser.parse_args()
    outcome = run_randomly(asked.model, asked.mode, asked.slots, asked.steps, asked.seed)
    print(json.dumps(dataclasses.asdict(outcome)))


if __name__ == "__main__":
    main()
