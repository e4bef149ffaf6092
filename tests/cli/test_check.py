"""``draftscope check``: what is put to a model, how tokens and speeds are judged, and what a check comes to."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from draftscope.cli.bench_sample import Outcomes, sample_of
from draftscope.cli.check_figures import compare_tokens, layers_of, positions_of, timed_as_json
from draftscope.cli.check_tables import layers_words
from draftscope.cli.check_verdict import verdict_of
from draftscope.cli.check_workload import Form, Talk
from draftscope.cli.edit_workload import bundled_conversations
from draftscope.cli.failure import ExitCode
from draftscope.cli.generation import Outcome
from draftscope.engine.events import Kind, Mechanism, Origin, empty_records
from draftscope.engine.probes import ArrayKind, RestoreKind, SideArray, StateStatus, empty_probes
from draftscope.engine.protocol import SlotResult
from draftscope.trace.store import TraceStore
from tests.cli.conftest import Command, Told

RESULT = SlotResult(0, "", (), 4, 0, 0, 0, (), (), 0.0, 0.0, 0.0, "max_tokens")


# ---- what is put to a model


@pytest.mark.parametrize("form", Form)
def test_that_the_last_turns_are_edited_the_latest_first_behind_the_replies_that_were_written(form: Form) -> None:
    talk = Talk(bundled_conversations()[0], form, 200)
    for turn in range(talk.n_turns):
        talk.prompt(turn)
        talk.replies.append(replace(RESULT, text=f"reply {turn}", tokens=(100 + turn,)))
    assert [talk.edited_turn(step) for step in range(talk.n_steps)] == [None] * 4 + [3, 2, 1]
    for step in range(talk.n_turns, talk.n_steps):
        turn = talk.edited_turn(step)
        assert turn is not None
        prompt, whole = talk.prompt(step), talk.prompt(turn)
        if form is Form.CHAT:
            assert len(prompt.messages) == len(whole.messages) == 2 * turn + 1
            assert prompt.messages[:-1] == whole.messages[:-1]
            assert prompt.messages[-1].content == talk.conversation.edited_text
        elif form is Form.TEXT:
            assert f"reply {turn - 1}" in prompt.text
            assert talk.conversation.edited_text in prompt.text
        else:
            n_before = len(talk.prompt(turn - 1).tokens) + 1
            assert prompt.tokens[:n_before] == whole.tokens[:n_before]
            assert prompt.tokens[n_before - 1] == 100 + turn - 1
            assert prompt.tokens != whole.tokens
            assert set(prompt.tokens) <= set(range(200))


# ---- tokens


def outcomes(tokens: tuple[int, ...], probabilities: tuple[float, ...]) -> Outcomes:
    """A reply; a probability that is NaN was a drafted token's."""
    records = empty_records(len(tokens))
    records["kind"], records["position"], records["token"] = Kind.TOKEN, 4 + np.arange(len(tokens)), tokens
    records["value"] = probabilities
    records["code"] = np.where(np.isnan(probabilities), Origin.ACCEPTED, Origin.SAMPLED)
    return [(Outcome([(0, replace(RESULT, tokens=tokens))]), records)]


@pytest.mark.parametrize(
    ("own", "reference", "sort"),
    [
        ((0.9, 0.301, 0.9), (0.9, 0.302, 0.9), "n_near_ties"),
        ((0.9, 0.301, 0.9), (0.9, 0.33, 0.9), "n_other"),
        ((0.9, math.nan, 0.9), (0.9, 0.4, 0.9), "n_perhaps"),
        ((0.9, math.nan, 0.9), (0.9, 0.6, 0.9), "n_other"),
    ],
)
def test_that_a_reply_that_parts_at_a_near_tie_is_told_from_one_that_is_another(
    own: tuple[float, ...], reference: tuple[float, ...], sort: str
) -> None:
    found = compare_tokens(outcomes((1, 2, 3), own), outcomes((1, 9, 3), reference))
    assert (found["n_replies"], found["n_equal"], found[sort]) == (1, 0, 1)
    assert found["n_near_ties"] + found["n_perhaps"] + found["n_other"] == 1
    assert found["differences"][0]["index"] == 1


def test_that_equal_replies_are_equal() -> None:
    reply = outcomes((1, 2), (0.5, math.nan))
    assert compare_tokens(reply, reply)["n_equal"] == 1


# ---- speeds


def sample(rate: float, repeat: int) -> Any:
    result = replace(RESULT, tokens=tuple(range(101)), generate_ms=100 / rate * 1e3, draft_n=10, draft_n_accepted=5)
    return sample_of([(Outcome([(0, result)]), empty_records())], repeat=repeat, granted="host", wall_s=1.0)


@pytest.mark.parametrize(
    ("rates", "is_effect"),
    [
        ([(100, 50), (101, 51), (99, 50)], True),
        ([(100, 95), (110, 101), (90, 89)], False),  # one-sided, but the pairs scatter by as much
        ([(100, 90), (200, 181), (50, 45.1)], True),  # each series scatters fourfold, the pairs do not
        ([(100, 50), (101, 51)], False),  # too few
        ([(100, 150), (101, 60), (99, 51)], False),
    ],
)
def test_that_noise_is_not_called_an_effect(rates: list[tuple[float, float]], is_effect: bool) -> None:
    found = timed_as_json([(sample(a, i + 1), sample(b, i + 1)) for i, (a, b) in enumerate(rates)])
    assert found is not None
    assert found["is_effect"] is is_effect
    assert found["enabled"]["tokens_per_second"]["best"] == pytest.approx(max(a for a, _ in rates))
    assert found["enabled"]["acceptance"] == 0.5
    ratios = [b / a for a, b in rates]
    change = found["change"]
    assert change["ratio"] == pytest.approx(math.prod(ratios) ** (1 / len(ratios)))
    if len(rates) < 3:
        assert change["low"] is change["high"] is None
    else:
        assert change["low"] < change["ratio"] < change["high"]
        assert is_effect is not (change["low"] <= 1 <= change["high"])


def test_the_interval_of_a_change_is_that_of_the_pairs_logarithms() -> None:
    pairs = [(sample(100, i), sample(100 * ratio, i)) for i, ratio in enumerate((0.5, 0.55, 0.6))]
    found = timed_as_json(pairs)
    assert found is not None
    change = found["change"]
    # the logarithms are -0.6931, -0.5978, -0.5108: mean -0.6006, deviation 0.0912; 9.925 is t at 2 degrees, 99 %
    assert math.log(change["ratio"]) == pytest.approx(-0.6006, abs=1e-4)
    assert math.log(change["high"] / change["ratio"]) == pytest.approx(9.925 * 0.0912 / math.sqrt(3), abs=2e-3)


# ---- verdict and tables from figures


def summary_of_ways(**by_verdict: int) -> dict[str, Any]:
    """A check of one way in which these verdicts were found and nothing differs."""
    mechanism = {"mechanism": Mechanism.ROLLBACK, "state_status": StateStatus.ROUNDING}
    way = {
        "label": "rollback",
        "is_checked": True,
        "verdicts": {"n": sum(by_verdict.values()), "n_differing": 0, "by_verdict": by_verdict, "first": []},
        "rows_in_use": {"n": 9, "n_right": 9, "words": ""},
        "tokens": {"n_replies": 1, "n_equal": 1, "n_near_ties": 0, "n_perhaps": 0, "n_other": 0, "differences": []},
        "speculation": {"is_active": True, "reason": ""},
        "errors": [],
        "positions": [],
        "timed": None,
        "n_dropped": 0,
        "restores": [mechanism],
    }
    return {
        "ways": [way],
        "settings": {"fault": "none"},
        "diagnosis": None,
        "n_faults_injected": 0,
        "workload": {"remark": ""},
        "model": {"is_recurrent": True},
        "is_interrupted": False,
    }


def test_states_within_rounding_are_not_called_what_was_saved() -> None:
    differs, sentences = verdict_of(summary_of_ways(equal=3, rounding=2, nothing_compared=1))
    assert not differs
    assert sentences == [
        "Equal, as far as it can be: of 6 restores 3 are equal in every bit; in 2 rollbacks, which save no state, "
        "hidden rows and MTP context are equal, and the recurrent state is within rounding of decoding the same tokens "
        "anew; in 1 nothing could be compared (rollback)."
    ]


def test_what_could_not_be_compared_is_not_called_equal() -> None:
    _, sentences = verdict_of(summary_of_ways(nothing_compared=4))
    assert sentences == ["Nothing of what 4 restores put back could be compared (rollback)."]


def test_layers_within_rounding_are_told_from_those_that_differ() -> None:
    store = TraceStore()
    probes, sides = empty_probes(2), []
    probes["t_start_ns"] = 10, 20
    probes["state_status"] = StateStatus.ROUNDING, StateStatus.DIFFERS
    probes["n_layers_differing"] = 0, 1
    for probe, values in zip(probes, ([0, 1e-6, 1e-6], [0, 1e-6, 0.5]), strict=True):
        layers = np.zeros((3, 2, 2))
        layers[:, 1, 0] = values
        t_ns = int(probe["t_start_ns"])
        sides += [SideArray(t_ns, ArrayKind.RESULT, probe.reshape(1)), SideArray(t_ns, ArrayKind.LAYERS, layers)]
    store.append_arrays(sides)
    layers_found = layers_of(store)
    assert [(layer["n_equal"], layer["n_rounding"]) for layer in layers_found] == [(2, 0), (0, 2), (0, 1)]
    assert layers_words(layers_found) == "equal 1, within rounding 1, differ 1"
    assert layers_words(layers_found[:2]) == "equal 1, within rounding 1"
    assert layers_words([]) == "-"


def test_rejected_drafts_are_told_by_position_in_few_groups() -> None:
    probes = empty_probes(41)
    probes["kind"] = RestoreKind.REJECTION
    probes["position"] = np.arange(41)[::-1] * 5
    groups = list(positions_of(probes))
    assert [group["n_restores"] for group in groups] == [7, 7, 7, 7, 7, 6]
    assert groups[0]["position"] == [0, 30]
    assert groups[-1]["position"] == [175, 200]
    assert len(list(positions_of(probes[:3]))) == 1
    assert list(positions_of(probes[:0])) == []


# ---- on the real engine


@pytest.fixture(scope="module")
def demo_check(demo_model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """A short check of the demo in two ways back, in a process of its own; its JSON and its report."""
    report = tmp_path_factory.mktemp("check") / "report.md"
    arguments = ("demo", "--modes", "rollback,host", "--repeat", "1", "--max-tokens", "20", "--threads", "1")
    command = [sys.executable, "-m", "draftscope.cli.main", "check", *arguments, "--report", str(report), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == ExitCode.DONE, done.stderr + done.stdout[-2000:]
    return json.loads(done.stdout), report.read_text()


def test_that_without_the_hook_every_row_is_wrong_and_every_vector_changes_and_with_it_none(
    demo_check: tuple[dict[str, Any], str],
) -> None:
    summary, _ = demo_check
    assert [way["label"] for way in summary["ways"]] == ["rollback", "host"]
    for way in summary["ways"]:
        prompts = [group for group in way["positions"] if group["kind"] == "prompt"]
        assert len({tuple(group["position"]) for group in prompts}) >= 5
        assert sum(group["n_restores"] for group in prompts) >= 12
        for group in way["positions"]:
            omitted, enabled = group["omitted"], group["enabled"]
            assert omitted["least_max_abs"] > 0
            assert omitted["n_differing"] == group["n_rows"] == group["n_restores"]
            assert omitted["n_vectors_changed"] == omitted["n_vectors"]
            assert omitted["n_named_right"] == 0
            assert 0 <= omitted["n_top_changed"] <= omitted["n_vectors"]
            assert (enabled["max_abs"], enabled["n_vectors_changed"], enabled["n_top_changed"]) == (0, 0, 0)
            assert enabled["n_named_right"] == group["n_rows"]
            assert enabled["accepted"] == enabled["accepted_saved"]
        assert [(layer["n"], layer["max_abs"] < 0.1) for layer in way["layers"]] == [(way["verdicts"]["n"], True)] * 6
        assert way["rows_in_use"]["n"] == way["rows_in_use"]["n_right"] > 50
        assert set(way["verdicts"]["by_verdict"]) <= {"equal", "rounding"}
        assert way["tokens"]["n_replies"] == 28
        assert way["tokens"]["n_other"] == 0
        assert way["timed"]["n_pairs"] == 1
        assert way["timed"]["enabled"]["tokens_per_second"]["median"] > 0
        assert not way["timed"]["is_effect"]
        assert len(way["restores"]) == way["verdicts"]["n"]
    assert not summary["differs"]
    assert summary["diagnosis"] is None
    assert summary["verdict"][0].startswith("Equal")


def test_that_the_report_has_the_verdict_every_table_and_what_figures_mean(
    demo_check: tuple[dict[str, Any], str],
) -> None:
    summary, report = demo_check
    assert all(f"- {sentence}" in report for sentence in summary["verdict"])
    for title in (
        "Hidden rows after restores",
        "What else is put back",
        "Acceptance and speed",
        "What the figures mean",
    ):
        assert f"\n## {title}\n" in report
    rows = [line for line in report.splitlines() if line.startswith("|")]
    assert len(rows) > 20
    assert {row.count(" | ") for row in rows if row.startswith("| rollback | edited prompt")} == {14}


Check = Callable[..., Told]


@pytest.fixture
def check(command: Command, made_model: Callable[[str], Path]) -> Check:
    """A short check of a made model, in this process."""

    def run(name: str, *arguments: object) -> Told:
        few = ("--repeat", 0, "--max-tokens", 12, "--threads", 1, "--in-process")
        return command("check", made_model(name), *few, *arguments)

    return run


@pytest.mark.parametrize("fault", ["omit_hook", "zero_row", "stale_row", "skip_layer", "companion_behind"])
@pytest.mark.parametrize("mode", ["rollback", "host"])
def test_that_a_fault_ends_in_1_and_is_named_by_what_was_measured(check: Check, mode: str, fault: str) -> None:
    told = check("qwen35", "--modes", mode, "--fault", fault, "--json")
    assert told.exit_code == ExitCode.RUN_FAILED
    summary = told.json
    assert summary["differs"]
    assert summary["diagnosis"]["cause"] == fault
    assert summary["verdict"][0].startswith("Wrong: ")
    assert summary["verdict"][1] == f"By what was measured it is the fault {fault}."


def test_that_a_fault_for_which_there_is_nothing_to_spoil_is_told_as_such(check: Check) -> None:
    told = check("glm4moe", "--fault", "skip_layer")
    assert told.exit_code == ExitCode.DONE
    assert "The fault skip_layer could be injected in none of" in told.out
    assert "no recurrent layers" in told.out


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("no-tokenizer", "The model has no tokenizer: conversations are made of token ids"),
        ("dense", "Nothing is drafted, so there are no hidden rows to check: This file has no MTP layers."),
        ("step35", "Equal: all that"),
    ],
)
def test_that_models_that_lack_something_are_checked_as_far_as_they_can_be(
    check: Check, name: str, sentence: str
) -> None:
    told = check(name)
    assert told.exit_code == ExitCode.DONE, told.out
    assert sentence in told.out


def test_that_ways_back_that_there_are_not_are_listed_with_the_reason(check: Check) -> None:
    told = check("glm4moe", "--json")
    assert [way["is_checked"] for way in told.json["ways"]] == [True, False, False, False]
    assert all("checkpoints" in way["why_not"] for way in told.json["ways"][1:])


def test_that_an_assistant_is_checked_with_its_file(check: Check, made_model: Callable[[str], Path]) -> None:
    told = check("gemma4", "--draft-model", made_model("gemma4-assistant"), "--json")
    assert told.exit_code == ExitCode.DONE
    groups = told.json["ways"][0]["positions"]
    assert 1 < len(groups) <= 6
    assert {group["kind"] for group in groups} == {"rejection"}
    for group in groups:
        assert group["omitted"]["n_vectors_changed"] == group["omitted"]["n_vectors"] > 0
        assert group["enabled"]["n_vectors_changed"] == 0


def test_that_a_report_that_cannot_be_written_is_told(check: Check, tmp_path: Path) -> None:
    told = check("dense", "--report", tmp_path / "none" / "r.md")
    assert told.exit_code == ExitCode.WRONG_USE
    told = check("dense", "--report", tmp_path)
    assert told.exit_code == ExitCode.RUN_FAILED
    assert "The report cannot be written" in told.err


def test_that_ctrl_c_ends_a_check_with_what_there_is() -> None:
    arguments = ("demo", "--modes", "host", "--repeat", "9999", "--max-tokens", "8", "--json")
    command = [sys.executable, "-m", "draftscope.cli.main", "check", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "timed pair 2 " not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == ExitCode.INTERRUPTED, err
    output = json.loads(out)
    assert output["is_interrupted"]
    assert output["ways"][0]["is_checked"]
    assert output["ways"][0]["timed"]["n_pairs"] >= 1
    assert output["verdict"][-1] == "Interrupted: this is what was measured until then."
