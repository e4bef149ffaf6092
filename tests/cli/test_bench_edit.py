"""``draftscope bench --workload edit``: who is asked what, what is compared, and the experiment on the real engine."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from draftscope.cli.bench_rounds import compare_drafts, first_rounds, rounds_of
from draftscope.cli.edit_workload import EditWorkload, bundled_conversations
from draftscope.cli.failure import ExitCode
from draftscope.engine.events import Kind, Operation, Origin, empty_records
from draftscope.engine.protocol import Command as EngineCommand
from draftscope.engine.protocol import Prompt, SlotResult, Submit
from tests.cli.conftest import Command, Told
from tests.cli.scripted_bench import ScriptedBench

N_TURNS = 4


@pytest.fixture
def bench(command: Command, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Told]:
    """Run ``bench --workload edit`` on a scripted engine."""

    def run(engine: ScriptedBench, *arguments: str) -> Told:
        monkeypatch.setattr("draftscope.cli.bench.make_client", lambda _backend, *, in_process: engine.client())
        return command("bench", "demo", "--workload", "edit", *arguments)

    return run


class _Listening(ScriptedBench):
    """Keeps the Submits."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.submits: list[Submit] = []

    def respond(self, command: EngineCommand) -> Any:
        if isinstance(command, Submit):
            self.submits.append(command)
        return super().respond(command)


# ---- conversations


def test_the_bundled_conversations_have_as_many_turns_each_and_edit_one_before_the_last() -> None:
    conversations = bundled_conversations()
    assert len(conversations) == 4
    for conversation in conversations:
        assert len(conversation.turns) == N_TURNS
        assert 0 < conversation.edited_turn < N_TURNS - 1
        assert conversation.edited_text != conversation.turns[conversation.edited_turn]


@pytest.mark.parametrize("is_chat", [True, False])
def test_each_prompt_begins_with_the_one_before_it_but_for_the_edited_one(is_chat: bool) -> None:
    workload = EditWorkload(bundled_conversations())
    prompts = workload.write(lambda asked: {number: f"reply {number}" for number in asked}, is_chat=is_chat)
    assert len(prompts) == 4 * (N_TURNS + 1)
    for first in range(0, len(prompts), N_TURNS + 1):
        *turns, edited = [_content(prompt) for prompt in prompts[first : first + N_TURNS + 1]]
        for before, after in itertools.pairwise(turns):
            assert after[: len(before)] == before
        turn = bundled_conversations()[first // (N_TURNS + 1)].edited_turn
        before = turns[turn - 1]
        assert edited[: len(before)] == before
        assert edited != turns[turn]
        assert len(edited) < len(turns[-1])


def _content(prompt: Prompt) -> Any:
    return tuple((m.role, m.content) for m in prompt.messages) or prompt.text


# ---- order, on a scripted engine


def test_all_settings_are_asked_the_same_and_only_a_fresh_prefill_reuses_nothing(bench: Callable[..., Told]) -> None:
    engine = _Listening()
    told = bench(engine, "--slots", "2", "--repeat", "1", "--json")
    variants = told.json["variants"]
    assert [(v["mode"], v["start"]) for v in variants] == [
        (None, "restored"),
        ("auto", "fresh prefill"),
        ("auto", "restored"),
        ("auto", "restored without hooks"),
    ]
    written = (N_TURNS - 1) * 2  # two slots write four conversations
    a_run = 1 + 2 * (N_TURNS + 1)  # running in, and two conversations at a time
    runs = [engine.submits[written + a_run * i : written + a_run * (i + 1)] for i in range(4)]
    asked = [[[task.prompt for task in submit.tasks] for submit in run[1:]] for run in runs]
    assert asked[0] == asked[1] == asked[2] == asked[3]
    reuse = [[submit.tasks[0].reuse for submit in run[1:]] for run in runs]
    again = [False, *[True] * N_TURNS]
    assert reuse == [again * 2, [False] * len(again) * 2, again * 2, again * 2]
    assert [context.use_hooks for context in engine.contexts[:4]] == [True, True, True, False]


def test_the_reply_after_the_edit_is_measured_and_the_turns_before_it_beside_it(bench: Callable[..., Told]) -> None:
    engine = ScriptedBench(
        speed=lambda _name, run: 400.0 if run >= N_TURNS - 1 and (run - 2) % (N_TURNS + 1) == 0 else 100.0
    )
    arguments = ("--slots", "4", "--no-baseline", "--repeat", "1")
    fresh = bench(engine, *arguments, "--json").json["variants"][0]
    assert fresh["tokens_per_second"]["median"] == pytest.approx(400.0)
    assert fresh["edit"]["before"]["tokens_per_second"]["median"] == pytest.approx(100.0)
    assert fresh["samples"][0]["n_tokens"] == 4 * 11
    assert fresh["edit"]["n_processed"] == fresh["edit"]["n_prompt"] == 5
    text = bench(ScriptedBench(), *arguments).out
    assert "auto (rollback), draft 3, restored without hooks" in text


def test_a_different_token_is_told_with_its_conversation_and_turn(bench: Callable[..., Told]) -> None:
    engine = ScriptedBench(other_tokens=((2, "auto"),))
    told = bench(engine, "--slots", "2", "--repeat", "1")
    assert "slot 1, conversation 2, turn 1: differs from token 5 on" in told.out
    assert "slot 1, conversation 4, the edit: differs from token 5 on" in told.out


@pytest.mark.parametrize("given", [("--prompt", "a"), ("--prompts", "f.jsonl"), ("--prompt", "a", "--chat")])
def test_prompts_of_ones_own_are_refused(bench: Callable[..., Told], given: tuple[str, ...]) -> None:
    told = bench(ScriptedBench(), *given)
    assert told.exit_code == ExitCode.WRONG_USE
    assert "brings its own conversations" in told.err


# ---- rounds and drafts


def _draft_records(probability: float, token: int = 7) -> Any:
    records = empty_records(6)
    records["kind"] = [Kind.OPERATION, Kind.TOKEN, Kind.TOKEN, Kind.ROUND, Kind.ROUND, Kind.TOKEN]
    records["code"] = [Operation.SUBMIT, Origin.REJECTED, Origin.SAMPLED, 0, 0, Origin.ACCEPTED]
    records["n"] = [0, 1, 0, 3, 3, 1]
    records["m"] = [0, 9, -1, 2, 1, -1]
    records["position"] = [20, 21, 21, 24, 26, 25]
    records["token"] = [-1, token, 9, -1, -1, 5]
    records["value"] = [12.0, probability, 0.5, 0.0, 0.0, 0.75]
    return records


def _result() -> SlotResult:
    return SlotResult(0, "", (), 20, 2, 6, 3, (), (), 1.0, 1.0, 1.0, "max_tokens")


def test_rounds_and_drafts_of_a_task_come_from_its_records() -> None:
    rounds = rounds_of(_draft_records(0.5), _result())
    assert rounds.n_common == 12
    assert (list(rounds.n_drafted), list(rounds.n_accepted)) == ([3, 3], [2, 1])
    assert len(rounds.drafts) == 2
    first = first_rounds([rounds, rounds], 1)
    assert (first.draft_n, first.n_accepted) == (6, 4)


def test_drafts_are_compared_at_the_same_place_and_probabilities_where_the_token_is_the_same() -> None:
    ours = rounds_of(_draft_records(0.5), _result())
    near = compare_drafts([ours], [rounds_of(_draft_records(0.375), _result())])
    assert (near.n, near.n_other, near.max_probability_difference) == (2, 0, 0.125)
    other = compare_drafts([ours], [rounds_of(_draft_records(0.5, token=8), _result())])
    assert (other.n, other.n_other, other.max_probability_difference) == (2, 1, 0.0)
    nothing = compare_drafts([ours], [rounds_of(empty_records(), _result())])
    assert nothing.n == 0
    assert np.isnan(nothing.max_probability_difference)


# ---- the experiment


def _experiment(model: str) -> dict[str, Any]:
    arguments = (model, "--workload", "edit", "--slots", "1,4", "--modes", "rollback", "--repeat", "1", "--json")
    command = [sys.executable, "-m", "draftscope.cli.main", "bench", *arguments, "--threads", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == ExitCode.DONE, done.stderr
    output: dict[str, Any] = json.loads(done.stdout)
    return output


@pytest.mark.parametrize("name", ["demo", "qwen3next"])
def test_after_an_edit_only_what_changed_is_processed_and_drafts_are_accepted_as_after_a_fresh_prefill(
    name: str, random_qwen3next: Path
) -> None:
    told = _experiment("demo" if name == "demo" else str(random_qwen3next))
    assert [v["is_available"] for v in told["variants"]] == [True] * 8
    for plain, fresh, restored, bare in (told["variants"][:4], told["variants"][4:]):
        for variant in (plain, restored, bare):
            edit = variant["edit"]
            assert edit["reuse"] == {"restored": 4}
            assert edit["n_changed"] <= edit["n_processed"] <= edit["n_changed"] + 256
            assert edit["n_processed"] < edit["n_prompt"] / 2
        assert fresh["edit"]["reuse"] == {"turned_off": 4}
        assert fresh["edit"]["n_processed"] == fresh["edit"]["n_prompt"]
        assert all(variant["tokens"]["are_equal"] for variant in (plain, fresh, restored, bare))
        assert restored["edit"]["first_rounds"] == fresh["edit"]["first_rounds"]
        # With hooks and without, the same pieces are decoded: any difference is one of the hidden rows.
        drafts = bare["edit"]["drafts"]["restored"]
        assert drafts["n_compared"] > 100
        assert drafts["n_other"] > 0 or drafts["max_probability_difference"] > 0
