"""Slots that live on, of chained heads and assistants: every head keeps the keys of what a slot has kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from draftscope.engine.events import Kind
from draftscope.engine.protocol import ContextSettings, ModelReport, Prompt, SlotResult, SlotTask
from tests.engine_ext.harness import GREEDY, Bench

PROMPT = tuple((step * 37) % 190 + 5 for step in range(40))
MORE = tuple((step * 53) % 190 + 5 for step in range(15))
FAMILIES = {"step35": 3, "hy_v3": 2, "gemma4": 3, "glm4moe": 3}
"""Name of the model -> draft length; glm4moe has a single head, to compare with."""


@dataclass
class Slots:
    """A bench whose runs tell their drafts."""

    bench: Bench
    report: ModelReport

    def run(self, slot: int, tokens: tuple[int, ...], *, max_tokens: int = 48, **changes: object) -> SlotResult:
        """One task to its end; its drafts are in ``drafts`` then."""
        continues = bool(changes.pop("continues", False))
        prompt = Prompt(is_continuation=continues)
        task = SlotTask(slot, prompt, GREEDY, max_tokens, ignore_eos=True, **changes)  # type: ignore[arg-type]
        self.bench.ring.read()
        self.bench.submit(task, tokens)
        (result,) = self.bench.finish()
        assert self.engine.find_broken() == ""
        records = self.bench.ring.read()
        rows = records[(records["kind"] == Kind.TOKEN) & (records["slot"] == slot) & (records["n"] > 0)]
        self.drafts = [(int(row["position"]), int(row["n"]), int(row["token"])) for row in rows]
        return result

    @property
    def engine(self) -> object:
        """The core."""
        return self.bench.backend._engine


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    """Each family that drafts otherwise than with a single head."""
    return str(request.param)


@contextmanager
def opened(name: str, made_model: Callable[[str], Path], **changes: object) -> Iterator[Slots]:
    given = {"n_slots": 2, "n_threads": 1, "n_draft_max": FAMILIES[name], "n_ctx": 256} | changes
    files = {"draft_path": str(made_model("gemma4-assistant"))} if name == "gemma4" else {}
    bench = Bench()
    report = bench.load(made_model(name), ContextSettings(**given), **files)  # type: ignore[arg-type]
    yield Slots(bench, report)
    bench.backend.unload()


def test_that_a_conversation_drafts_from_what_its_slot_kept_as_from_a_prompt_decoded_anew(
    family: str, made_model: Callable[[str], Path]
) -> None:
    with opened(family, made_model) as slots:
        first = slots.run(0, PROMPT)
        turn = (*PROMPT, *first.tokens, *MORE)
        kept = slots.run(0, turn)
        of_kept = slots.drafts
        fresh = slots.run(1, turn, reuse=False)
        assert kept.n_reused >= len(PROMPT) + 40
        assert fresh.n_reused == 0
        assert kept.tokens == fresh.tokens
        assert of_kept == slots.drafts
        assert len(of_kept) > 30


def test_that_a_shorter_prompt_drops_the_tail_of_every_head(family: str, made_model: Callable[[str], Path]) -> None:
    with opened(family, made_model) as slots:
        slots.run(0, PROMPT)
        turn = (*PROMPT[:25], *MORE)
        kept = slots.run(0, turn)
        of_kept = slots.drafts
        fresh = slots.run(1, turn, reuse=False)
        assert kept.n_reused >= 24
        assert (kept.tokens, of_kept) == (fresh.tokens, slots.drafts)


def test_that_a_slot_that_was_cancelled_between_draft_and_verification_goes_on(
    family: str, made_model: Callable[[str], Path]
) -> None:
    with opened(family, made_model) as slots:
        whole = slots.run(1, PROMPT)
        for n_steps in (2, 3, 6):
            task = SlotTask(0, Prompt(), GREEDY, 48, ignore_eos=True)
            slots.bench.submit(task, PROMPT)
            for _ in range(n_steps):
                slots.bench.backend.step()
            slots.bench.backend.cancel((0,))
            slots.bench.finish()
            assert slots.engine.find_broken() == ""
            again = slots.run(0, PROMPT)
            assert again.tokens == whole.tokens
            assert again.draft_n_accepted > 0


def test_that_rewound_forked_and_restored_slots_write_and_draft_the_same(
    family: str, made_model: Callable[[str], Path]
) -> None:
    with opened(family, made_model) as slots:
        slots.run(0, PROMPT, max_tokens=10)
        saved = slots.engine.save_slot(0)
        straight = slots.run(0, MORE, continues=True)
        of_straight = slots.drafts
        assert len(of_straight) > 30
        slots.engine.restore_slot(1, saved)
        assert (slots.run(1, MORE, continues=True).tokens, slots.drafts) == (straight.tokens, of_straight)
        slots.engine.rewind_slot(0, len(PROMPT) + 10)
        slots.engine.fork_slot(0, 1)
        for slot in (0, 1):
            assert (slots.run(slot, MORE, continues=True).tokens, slots.drafts) == (straight.tokens, of_straight)


def test_that_a_slot_saved_where_fewer_heads_drafted_is_not_drafted_from_keys_that_were_never_made(
    made_model: Callable[[str], Path],
) -> None:
    with opened("step35", made_model, n_draft_max=1) as slots:
        slots.run(0, PROMPT, max_tokens=10)
        saved = slots.engine.save_slot(0)
        plain = slots.run(0, MORE, continues=True)
    with opened("step35", made_model, n_draft_max=3) as slots:
        slots.engine.restore_slot(0, saved)
        assert slots.engine.slot_facts(0)["n_waiting"] == 1  # nothing of the MTP context was taken over
        late = slots.run(0, MORE, continues=True)
        assert late.tokens == plain.tokens
        assert late.drafted_at[2] > 0
    with opened("step35", made_model, n_draft_max=2) as slots:
        slots.run(0, PROMPT, max_tokens=10)
        whole = slots.engine.save_slot(0)
        slots.bench.backend.configure(ContextSettings(n_slots=2, n_threads=1, n_draft_max=1, n_ctx=256))
        slots.engine.restore_slot(0, whole)  # more heads than drafted here are no obstacle
        facts = slots.engine.slot_facts(0)
        assert facts["n_draft"] + facts["n_waiting"] - 1 == facts["n_decoded"]
        assert slots.run(0, MORE, continues=True).tokens == plain.tokens


@pytest.mark.parametrize("name", ["glm4moe", "hy_v3", "gemma4"])
def test_that_a_shifted_context_goes_on_drafting_and_parts_nowhere_from_one_without_mtp(
    name: str, made_model: Callable[[str], Path]
) -> None:
    with opened(name, made_model, n_ctx=128, shift=True, use_mtp=False) as slots:
        plain = slots.run(0, PROMPT, max_tokens=300)
    with opened(name, made_model, n_ctx=128, shift=True) as slots:
        done = slots.run(0, PROMPT, max_tokens=300)
        assert done.tokens == plain.tokens
        positions = [position for position, _, _ in slots.drafts]
        assert sum(b < a - 20 for a, b in pairwise(positions)) >= 3  # shifts
        assert done.draft_n_accepted / done.draft_n > 0.2
        assert slots.bench.backend.checkpoint_counts().n_fallbacks == 0
        counts = slots.bench.backend.decode_counts()
        # An assistant sits out the round after a shift: it would find the keys turned for their old places.
        assert (counts.draft < FAMILIES[name] * counts.rounds) == (name == "gemma4")


def test_that_the_keys_of_step35_cannot_be_shifted_which_is_said(made_model: Callable[[str], Path]) -> None:
    with opened("step35", made_model, n_ctx=64, shift=True) as slots:
        assert "cannot be moved" in slots.report.why_not_shift
        assert slots.run(0, PROMPT, max_tokens=300).stop == "context_full"
