"""Grammars in the core: what they allow is generated, as if all else were left out first, and the process lives."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.events import Kind, Origin
from draftscope.engine.json_schema import to_gbnf
from draftscope.engine.protocol import CheckpointMode, ContextSettings, Prompt, SamplingSettings, SlotTask
from tests.engine_ext.grammar_reference import generate
from tests.engine_ext.harness import GREEDY, TEXTS, Bench, Run, open_bench, run, token_prompts

WARM = SamplingSettings(temperature=0.8, seed=11)
WITHOUT_MTP = ContextSettings(use_mtp=False, n_threads=1)
WITH_MTP = ContextSettings(checkpoint=CheckpointMode.ROLLBACK, n_threads=1)
PERSON = json.dumps(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 12},
            "age": {"type": "integer"},
            "tags": {"type": "array", "items": {"enum": ["a", "b\\c", 'd"e']}, "minItems": 1, "maxItems": 3},
            "pet": {"type": ["string", "null"]},
        },
        "required": ["name", "age", "tags"],
    }
)
PERMISSIVE = r"root ::= [^\x00]*"
LINES = r'root ::= ("- " [a-z]+ " "? [0-9]* "\n")+'


def constrained(
    path: Path, settings: ContextSettings, grammar: str, sampling: SamplingSettings, n_slots: int = 1
) -> Run:
    return run(path, TEXTS[:n_slots], settings, sampling=sampling, grammar=grammar, max_tokens=200, ignore_eos=False)


@pytest.mark.parametrize("n_slots", [1, 4])
@pytest.mark.parametrize("settings", [WITHOUT_MTP, WITH_MTP], ids=["without MTP", "with MTP"])
@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "warm"])
def test_that_output_of_a_schema_is_json_that_fits_it(
    demo_model: Path, settings: ContextSettings, n_slots: int, sampling: SamplingSettings
) -> None:
    done = constrained(demo_model, settings, to_gbnf(PERSON), sampling, n_slots)
    finished = [result for result in done.results if result.stop != "max_tokens"]
    assert len(finished) >= n_slots - 1
    for result in finished:
        assert result.stop == "end_of_generation"
        value = json.loads(result.text)
        assert {"name", "age", "tags"} <= set(value) <= {"name", "age", "tags", "pet"}
        assert 1 <= len(value["name"]) <= 12
        assert type(value["age"]) is int
        assert 1 <= len(value["tags"]) <= 3
        assert set(value["tags"]) <= {"a", "b\\c", 'd"e'}
        assert value.get("pet") is None or isinstance(value["pet"], str)


@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "warm"])
@pytest.mark.parametrize("grammar", [to_gbnf(PERSON), LINES], ids=["schema", "lines"])
@pytest.mark.parametrize("mode", [CheckpointMode.ROLLBACK, CheckpointMode.HOST])
def test_that_drafts_change_no_token(
    demo_model: Path, mode: CheckpointMode, grammar: str, sampling: SamplingSettings
) -> None:
    plain = constrained(demo_model, WITHOUT_MTP, grammar, sampling, 4)
    drafted = constrained(demo_model, replace(WITH_MTP, checkpoint=mode), grammar, sampling, 4)
    assert drafted.tokens == plain.tokens
    tokens = drafted.records[drafted.records["kind"] == Kind.TOKEN]
    assert (tokens["code"] == Origin.REJECTED).any()


@pytest.mark.parametrize("sampling", [GREEDY, replace(WARM, temperature=1.1)], ids=["greedy", "warm"])
def test_that_a_grammar_that_allows_what_is_said_changes_nothing(demo_model: Path, sampling: SamplingSettings) -> None:
    free = run(demo_model, TEXTS, WITH_MTP, sampling=sampling)
    assert run(demo_model, TEXTS, WITH_MTP, sampling=sampling, grammar=PERMISSIVE).tokens == free.tokens


SAMPLINGS = {
    "greedy": GREEDY,
    "warm": WARM,
    "penalties": replace(WARM, repeat_penalty=1.3, presence_penalty=0.4),
    "greedy with penalties": replace(GREEDY, repeat_penalty=1.3),
    "everything": replace(WARM, temperature=1.5, top_k=0, top_p=1.0, min_p=0.0),
    "few": replace(WARM, temperature=1.2, top_k=5, top_p=1.0, min_p=0.0),
}


@pytest.mark.parametrize("name", SAMPLINGS)
@pytest.mark.parametrize(
    "grammar",
    [to_gbnf('{"type": "array", "items": {"type": "string"}, "minItems": 6}'), LINES, PERMISSIVE, "root ::= !<[7]>*"],
    ids=["schema", "lines", "permissive", "tokens"],
)
def test_that_it_chooses_as_if_all_candidates_were_filtered_first(demo_model: Path, grammar: str, name: str) -> None:
    for text in TEXTS[:2]:
        ours = run(demo_model, [text], WITHOUT_MTP, sampling=SAMPLINGS[name], grammar=grammar, max_tokens=40)
        assert list(ours.tokens[0]) == generate(demo_model, text, grammar, SAMPLINGS[name], len(ours.tokens[0]))
        assert len(ours.tokens[0]) >= 20


def test_that_a_task_ends_where_its_grammar_does(demo_model: Path) -> None:
    for ignore_eos in (False, True):
        done = run(demo_model, TEXTS, WITH_MTP, grammar='root ::= "xyzzy" | "plugh"', ignore_eos=ignore_eos)
        assert {result.text for result in done.results} <= {"xyzzy", "plugh"}
        assert {result.stop for result in done.results} == {"end_of_generation"}
        assert {result.error for result in done.results} == {""}


@pytest.mark.parametrize("settings", [WITHOUT_MTP, WITH_MTP], ids=["without MTP", "with MTP"])
@pytest.mark.parametrize("grammar", ['root ::= "xyzzy" | "plugh"', 'root ::= "xyzzy" <[99999999]>', 'root ::= ""'])
def test_that_what_follows_in_the_slot_goes_on_from_where_the_grammar_ended(
    demo_model: Path, settings: ContextSettings, grammar: str
) -> None:
    with open_bench(demo_model, replace(settings, n_slots=1)) as bench:
        bench.submit(SlotTask(0, Prompt(), GREEDY, 24, ignore_eos=True, grammar=grammar), TEXTS[1])
        text = TEXTS[1] + bench.finish()[0].text + "\n\ndef "
        bench.submit(SlotTask(0, Prompt(), GREEDY, 24, ignore_eos=True), text)
        after = bench.finish()[0]
    fresh = run(demo_model, [text], settings, max_tokens=24)
    assert (after.tokens, after.error) == (fresh.tokens[0], "")


def test_that_an_empty_text_may_be_all_that_is_allowed(demo_model: Path) -> None:
    done = run(demo_model, TEXTS[:1], WITH_MTP, grammar='root ::= ""', ignore_eos=True)
    assert (done.results[0].text, done.results[0].tokens, done.results[0].stop) == ("", (), "end_of_generation")


def test_that_prompt_tokens_are_not_held_against_the_grammar_but_count_for_penalties(demo_model: Path) -> None:
    sampling = replace(GREEDY, repeat_penalty=50.0, repeat_last_n=200)
    grammar = "root ::= [ab]"
    assert run(demo_model, ["a a a"], WITHOUT_MTP, sampling=sampling, grammar=grammar).results[0].text == "b"
    assert run(demo_model, ["b b b"], WITHOUT_MTP, sampling=sampling, grammar=grammar).results[0].text == "a"


@pytest.mark.parametrize("settings", [WITHOUT_MTP, WITH_MTP], ids=["without MTP", "with MTP"])
def test_that_a_task_fails_with_a_sentence_where_no_token_fits(demo_model: Path, settings: ContextSettings) -> None:
    grammar = 'root ::= "ab" <[99999999]> "c"'
    with open_bench(demo_model, replace(settings, n_slots=2)) as bench:
        for slot in range(2):
            text = "" if slot else grammar
            bench.submit(SlotTask(slot, Prompt(), GREEDY, 12, ignore_eos=True, grammar=text), TEXTS[slot])
        stuck, free = bench.finish()
        assert (stuck.text, stuck.stop) == ("ab", "failed")
        assert "No token of the model fits the grammar of slot 0" in stuck.error
        assert (len(free.tokens), free.stop) == (12, "max_tokens")
        bench.submit(SlotTask(0, Prompt(), GREEDY, 12, ignore_eos=True), TEXTS[1])
        assert bench.finish()[0].tokens == free.tokens


def test_that_a_token_that_crosses_into_a_rule_for_tokens_ends_the_task_and_not_the_process(demo_model: Path) -> None:
    with open_bench(demo_model, WITHOUT_MTP) as bench:
        pieces = {bench.backend._engine.piece(token): token for token in range(400)}
        word = next(piece for piece in pieces if len(piece) == 2 and piece.isalpha())
        grammar = f'root ::= "{chr(word[0])}" <[{pieces[word]}]>'
        results = []
        for text in TEXTS:
            bench.submit(SlotTask(0, Prompt(), replace(WARM, temperature=5.0), 12, grammar=grammar), text)
            results.append(bench.finish()[0])
        crossed = [result for result in results if result.stop == "failed"]
        assert crossed
        assert all("crosses into a rule" in result.error for result in crossed)
        assert {result.stop for result in results} <= {"failed", "end_of_generation"}


def test_that_a_grammar_whose_readings_multiply_ends_the_task_before_it_stalls_the_engine(demo_model: Path) -> None:
    grammar = 'root ::= [0-9] root "b" | [0-9] root "c" | "z"'  # every digit doubles what may follow
    done = run(demo_model, TEXTS[:1], WITHOUT_MTP, grammar=grammar, max_tokens=100)
    assert "in so many ways" in done.results[0].error
    assert 5 <= len(done.tokens[0]) <= 20


@pytest.mark.parametrize("grammar", ["root ::= <|no such token|>", "root ::= <[99999999999]>"])
def test_that_what_only_llama_refuses_fails_before_the_slot_changes(demo_model: Path, grammar: str) -> None:
    with open_bench(demo_model, WITH_MTP) as bench:
        bench.ring.read()
        with pytest.raises(EngineError) as caught:
            bench.submit(SlotTask(0, Prompt(), GREEDY, 12, grammar=grammar), TEXTS[0])
        assert caught.value.code is ErrorCode.BAD_GRAMMAR
        assert "each must be one token of this model" in caught.value.hint
        assert "failed to parse grammar" in caught.value.hint
        assert len(bench.ring.read()) == 0
        bench.submit(SlotTask(0, Prompt(), GREEDY, 12), TEXTS[0])
        assert bench.finish()[0].tokens


def test_that_a_model_without_tokenizer_takes_no_grammar(no_tokenizer_model: Path) -> None:
    bench = Bench()
    bench.load(no_tokenizer_model, WITHOUT_MTP)
    with pytest.raises(EngineError, match="no tokenizer") as caught:
        bench.submit(SlotTask(0, Prompt(), GREEDY, 12, grammar=PERMISSIVE), token_prompts(1)[0])
    assert caught.value.code is ErrorCode.BAD_GRAMMAR
    bench.backend.unload()


def test_that_a_tiny_model_of_every_kind_keeps_to_its_grammar(random_qwen35: Path, random_glm4moe: Path) -> None:
    for path in (random_qwen35, random_glm4moe):
        done = run(
            path, TEXTS, WITH_MTP, sampling=WARM, grammar='root ::= ("[" [0-9]{2} "]" | "é" | "日本")+', max_tokens=40
        )
        for result in done.results:
            left = result.text.rstrip("\ufffd")
            for part in ("é", "日本"):
                left = left.replace(part, "")
            assert set(left) <= set("[]0123456789日")
            assert result.stop == "max_tokens"
