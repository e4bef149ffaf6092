"""Grammars are refused with a place and a reason, and what is not refused libllama can follow."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.gbnf import MAX_BYTES, check_grammar, grammar_problem

ROOT = Path(__file__).parents[2]

GOOD = [
    'root ::= "a"',
    'root ::= ""',
    'root ::= [^"\\\\\\x00-\\x1F]* "\\u00e9\\U0001F600\\t\\r\\n\\[\\]\\-"',
    'root ::= a | b # either\n# a comment\na ::= "x"+ "y"? [z-]*\r\nb::=(("q" | [])\n  "r"){2,5} .{3} .{2,} .{0,1}\n',
    "root ::= [a-zA-Z_] [-a-z0-9]{0,5000}",
    'root ::= (("a"?))* "b"',
    'root ::= "(" root ")" | [0-9]+ | list\nlist ::= "[" (root ("," root)*)? "]"',
    'root ::= "a"\nroot ::= "b"',
    "root ::= " + "(" * 900 + '"x"' + ")" * 900,
    "root ::= a0\n" + "".join(f"a{i} ::= a{i + 1}\n" for i in range(900)) + 'a900 ::= "x"',
    'root ::= ("x" ("y")?){600}',
    'root ::= "日本" [ぁ-ん]* | [^é]',
]

BAD = [
    ("", "There is no rule 'root'"),
    (" # nothing\n", "There is no rule 'root'"),
    ('rot ::= "a"', "There is no rule 'root'"),
    ('root ::= "a', 'Line 1, column 12: the text ends where "'),
    ('root ::= "a"\nx ::= [a-', "Line 2, column 10: the text ends where ]"),
    ("root ::= item*", "Line 1, column 10: the rule 'item' is used and not defined"),
    ('root ::= ("a"', "Line 1, column 14: ')' is expected here"),
    ('root ::= "a")', "Line 1, column 13: this is no part of a rule"),
    ('root "a"', "Line 1, column 6: '::=' is expected here"),
    ('::= "a"', "Line 1, column 1: the name of a rule"),
    ('root ::= "\\q"', "Line 1, column 11: one of"),
    ('root ::= "\\x4"', "Line 1, column 11: one of"),
    ("root ::= *", "Line 1, column 10: there is nothing here that could be repeated"),
    ('root ::= "a" | +', "Line 1, column 16: there is nothing here"),
    ('root ::= "a"{3,2}', "Line 1, column 13: a repetition from 3 to 2 times"),
    ('root ::= "a"{x}', "Line 1, column 14: a whole number"),
    ('root ::= "a"{1;2}', "Line 1, column 15: '}' is expected"),
    ('root ::= "a"{9999999999}', "is too large"),
    ('root ::= "a"{2001}', "more than 2000 rules"),
    ('root ::= ("a" "b"?){1001}', "more than 2000 rules"),
    ('root ::= "' + "a" * 2000 + '"{1000}', "more than 1048576 elements"),
    ("root ::= <[x]>", "Line 1, column 10: a token"),
    ("root ::= a_b", "Line 1, column 11: this is no part of a rule"),
    ('root ::= "a\0"', "Line 1, column 12: a grammar cannot hold the character 0"),
    ("root ::= " + "(" * 2000, "nested more than 1000 deep"),
    ("root ::= root", "'root' begins with itself"),
    ('root ::= a | "x"\na ::= b\nb ::= root "y"', "begins with itself"),
    ('root ::= ( | "a")*', "begins with itself"),
    # These two would make libllama go on for ever, and the third abort: it sees that b may be empty, not that a may.
    ('root ::= a root "y" | "x"\na ::= b\nb ::= | "z"', "'root' begins with itself"),
    ('root ::= "q" s\ns ::= a s "y"? "y"? | "x"\na ::= b b\nb ::= "z"?', "'s' begins with itself"),
    ('root ::= "x" s\ns ::= a s\na ::= b\nb ::= | ""', "'s' leads only to itself"),
    (
        "root ::= a0\n" + "".join(f"a{i} ::= a{i + 1} | a{i + 1}\n" for i in range(40)) + 'a40 ::= "x"',
        "can begin in more than 10000 ways",
    ),
    (
        "root ::= a0\n" + "".join(f"a{i} ::= a{i + 1}\n" for i in range(2000)) + 'a2000 ::= "x"',
        "begin with one another",
    ),
    ("root ::= " + "|".join(['"x"'] * 20_000), "can begin in more than 10000 ways"),
    ("root ::= n0\n" + "".join(f"n{i} ::= | n{i + 1} n{i + 1}\n" for i in range(30)) + 'n30 ::= | "a"', "10000 ways"),
    ("root ::= " + '"a" ' * MAX_BYTES, "longer than 256 KiB"),
]


@pytest.mark.parametrize("text", GOOD)
def test_a_good_grammar_is_taken(text: str) -> None:
    assert grammar_problem(text) == ""


@pytest.mark.parametrize(("text", "says"), BAD, ids=range(len(BAD)))
def test_a_bad_grammar_is_refused_with_its_place_and_reason(text: str, says: str) -> None:
    problem = grammar_problem(text)
    assert says in problem
    assert problem.endswith(".")
    with pytest.raises(EngineError, match="The grammar of slot 3 cannot be used") as caught:
        check_grammar(text, "slot 3")
    assert caught.value.code is ErrorCode.BAD_GRAMMAR


def test_the_largest_grammar_is_read_in_a_second() -> None:
    lines = (f'a{i} ::= "x" (a{i + 1} | [0-9]+ ("y" | a{i + 1})*)\n' for i in range(5000))
    text = "root ::= a0\n" + "".join(lines) + 'a5000 ::= "z"'
    assert len(text) > MAX_BYTES * 0.7
    started = time.process_time()
    assert grammar_problem(text) == ""
    assert time.process_time() - started < 3


def _expression(dice: random.Random, depth: int) -> str:
    """An expression over the rules root, a and b."""
    atoms = ['"x"', '"yz"', "[0-9]", "[^q]", ".", '"é"', "[a-c]", '"x"', '""', "a", "b", "root"]
    items = []
    for _ in range(dice.choice([0, 1, 1, 2, 3])):
        item = f"({_expression(dice, depth - 1)})" if depth and dice.random() < 0.4 else dice.choice(atoms)
        items.append(item + dice.choice([""] * 8 + ["*", "+", "?", "{2}", "{0,3}", "{1,}"]))
    return dice.choice([" ", " ", " | "]).join(items)


def _made(seed: int, n: int) -> list[str]:
    """Grammars of three rules, about half of them with a character too many, too few or another one."""
    dice = random.Random(seed)
    made = []
    for _ in range(n):
        text = "\n".join(f"{name} ::= {_expression(dice, 2)}" for name in ("root", "a", "b"))
        if dice.random() < 0.5:
            at = dice.randrange(len(text))
            text = (
                text[:at] + dice.choice(['"', "(", ")", "|", "*", "{2}", "]", "c", ""]) + text[at + dice.randrange(2) :]
            )
        made.append(text)
    return made


def _asked(model: Path, grammars: list[str]) -> list[str]:
    command = [sys.executable, "-m", "tests.engine.gbnf_probe", str(model)]
    done = subprocess.run(
        command, input=json.dumps(grammars).encode(), capture_output=True, cwd=ROOT, timeout=120, check=False
    )
    answers = done.stdout.decode().split()
    assert done.returncode == 0, f"libllama ended at {grammars[len(answers)]!r}: {done.stderr[-300:]!r}"
    return answers


ENDLESS = ("begins with itself", "leads only to itself", "ends before it begins", "more than 10000 ways")
"""Refusals of what libllama may take, and then never comes back from."""


@pytest.mark.parametrize("seed", range(4))
def test_what_is_taken_llama_takes_and_what_is_refused_it_refuses(vocab_only_model: Path, seed: int) -> None:
    grammars = {text: grammar_problem(text) for text in [*GOOD, *_made(seed, 800)] if text}  # an empty one is none
    asked = [text for text, problem in grammars.items() if not any(words in problem for words in ENDLESS)]
    answers = dict(zip(asked, _asked(vocab_only_model, asked), strict=True))
    assert [(text, grammars[text]) for text in asked if (answers[text] == "+") != (grammars[text] == "")] == []
    assert list(answers.values()).count("+") > 100
    assert list(answers.values()).count("-") > 100
