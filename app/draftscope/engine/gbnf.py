"""Reads GBNF grammars as libllama does, and refuses those that it refuses, or would read or follow for ever.

libllama's own reader tells its errors on standard error, nests as deep as the text asks it to, and loops on some
grammars of a few bytes (``"a"{3,2}``; rules that begin with themselves behind one that may be empty). So it only gets
texts that passed here. ``gbnf_rules`` looks at the rules that this module has read.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.gbnf_rules import TERMINAL, Rule, find_fault
from draftscope.engine.gbnf_text import CLOSING_BRACE, DEFINED_AS, INTEGER, NAME, TOKEN, GbnfText, Refusal

ROOT = "root"
"""The rule that a grammar begins with."""

MAX_BYTES = 256 << 10
"""Longest grammar; the ones made of large JSON schemas have tens of kilobytes."""

MAX_ELEMENTS = 1 << 20
"""Characters, classes and references of all rules, repetitions written out: 8 bytes each in libllama."""

MAX_DEPTH = 1000
"""Nesting of parentheses: libllama's reader calls itself for each."""

MAX_REPETITIONS = 2000
"""libllama's own limit for what a repetition makes."""


@dataclass
class _Open:
    """A rule, or a group in it, that is being read; ``start`` and ``weight`` are those of its last item."""

    rule: Rule
    number: int
    n_symbols_before: int = 0
    items: list[int] = field(default_factory=list)
    start: int = 0
    n_made: int = 1
    weight: int = 0


def grammar_problem(text: str) -> str:
    """What is wrong with a grammar, as a sentence with its place; empty when nothing is."""
    try:
        if len(text.encode("utf-8", "replace")) > MAX_BYTES:
            raise Refusal(f"it is longer than {MAX_BYTES >> 10} KiB", None)
        rules = _Reader(text).read()
        if fault := find_fault(rules):
            raise Refusal(fault, None)
    except Refusal as refusal:
        what = f"{refusal.place(text)}{refusal}."
        return what[0].upper() + what[1:]
    return ""


def check_grammar(text: str, whose: str) -> None:
    """Refuse a grammar that no engine can follow.

    Raises:
        EngineError: BAD_GRAMMAR, saying what is wrong and where; ``whose`` names the task.
    """
    if problem := grammar_problem(text):
        what = f"The grammar of {whose} cannot be used: {problem[0].lower()}{problem[1:]}"
        raise EngineError(ErrorCode.BAD_GRAMMAR, what, "llama.cpp's grammars/README.md describes GBNF.")


class _Reader:
    """One pass over a text. Groups and repetitions become rules of their own, as in libllama."""

    def __init__(self, text: str) -> None:
        self._text = GbnfText(text)
        self._named: dict[str, int] = {}
        self._rules: list[Rule] = []
        self._defined: set[int] = set()
        self._first_use: dict[int, int] = {}
        self._n_elements = 0
        self._n_unwritten = 0  # symbols that libllama makes for a long repetition and this reader does not

    def read(self) -> list[Rule]:
        """The rules, ``root`` among them."""
        self._text.skip_space(over_lines=True)
        while not self._text.is_over:
            self._read_rule()
        if ROOT not in self._named:
            raise Refusal(f"there is no rule {ROOT!r}, which a grammar begins with", None)
        for name, number in self._named.items():
            if number not in self._defined:
                raise Refusal(f"the rule {name!r} is used and not defined", self._first_use.get(number))
        return self._rules

    def _space(self, stack: list[_Open]) -> None:
        self._text.skip_space(over_lines=len(stack) > 1)

    # ---- rules

    def _symbol(self, name: str) -> int:
        if name not in self._named:
            self._named[name] = self._new_rule(name)
            self._first_use[self._named[name]] = self._text.at - len(name)
        return self._named[name]

    def _new_rule(self, name: str) -> int:
        self._rules.append(Rule(name, []))
        return len(self._rules) - 1

    @property
    def _n_symbols(self) -> int:
        return len(self._rules) + self._n_unwritten

    def _read_rule(self) -> None:
        name = self._text.take(NAME, "the name of a rule")
        number = self._symbol(name)
        self._text.skip_space(over_lines=False)
        self._text.take(DEFINED_AS, "'::='")
        self._text.skip_space(over_lines=True)
        self._defined.add(number)
        self._rules[number].alternatives.clear()  # of two definitions the last one counts
        self._read_alternatives(_Open(self._rules[number], number))
        if not self._text.is_over and self._text.peek() not in "\r\n":
            raise Refusal("this is no part of a rule; the next rule begins on a line of its own", self._text.at)
        self._text.skip_space(over_lines=True)

    def _read_alternatives(self, outermost: _Open) -> None:
        stack = [outermost]
        while stack:
            character = self._text.peek()
            if character == "(":
                self._open_group(stack)
            elif character == "|":
                self._text.at += 1
                stack[-1].rule.alternatives.append(stack[-1].items)
                stack[-1].items, stack[-1].start = [], 0
                self._text.skip_space(over_lines=True)
            elif character == ")" and len(stack) > 1:
                self._close_group(stack)
            elif character and character in "*+?{":
                self._repeat(stack)
            elif not self._read_item(stack):
                if len(stack) > 1:
                    raise Refusal("')' is expected here", self._text.at)
                self._end(stack.pop())

    def _end(self, opened: _Open) -> None:
        opened.rule.alternatives.append(opened.items)

    def _open_group(self, stack: list[_Open]) -> None:
        if len(stack) > MAX_DEPTH:
            raise Refusal(f"parentheses are nested more than {MAX_DEPTH} deep", self._text.at)
        self._text.at += 1
        n_before = self._n_symbols
        number = self._new_rule(stack[-1].rule.name)
        stack.append(_Open(self._rules[number], number, n_before))
        self._text.skip_space(over_lines=True)

    def _close_group(self, stack: list[_Open]) -> None:
        group = stack.pop()
        self._end(group)
        self._text.at += 1
        self._add(stack[-1], [group.number], weight=1, n_made=max(1, self._n_symbols - group.n_symbols_before))
        self._space(stack)

    def _add(self, opened: _Open, items: list[int], *, weight: int, n_made: int = 1) -> None:
        opened.start, opened.weight, opened.n_made = len(opened.items), weight, n_made
        opened.items.extend(items)
        self._count(weight)

    def _count(self, n: int) -> None:
        self._n_elements += n
        if self._n_elements > MAX_ELEMENTS:
            raise Refusal(f"its rules come to more than {MAX_ELEMENTS} elements", self._text.at)

    def _read_item(self, stack: list[_Open]) -> bool:
        """A literal, class, token, reference or dot. False: none begins here."""
        character, before = self._text.peek(), self._text.at
        if character == '"':
            n = self._characters('"')
            self._add(stack[-1], [TERMINAL] * min(n, 2), weight=n)
        elif character == "[":
            n = self._characters("]")
            self._add(stack[-1], [TERMINAL] if n else [], weight=n)
        elif character and character in "<!":
            self._text.take(TOKEN, "a token such as <[42]> or <|name|>")
            self._add(stack[-1], [TERMINAL], weight=1)
        elif character == ".":
            self._text.at += 1
            self._add(stack[-1], [TERMINAL], weight=1)
        elif self._text.is_at(NAME):
            number = self._symbol(self._text.take(NAME, "a name"))
            self._add(stack[-1], [number], weight=1)
        if self._text.at == before:
            return False
        self._space(stack)
        return True

    def _characters(self, end: str) -> int:
        """Read to the end of a literal or a class; how many elements libllama makes of it."""
        self._text.at += 1
        if end == "]" and self._text.peek() == "^":
            self._text.at += 1
        n = 0
        while self._text.peek() != end:
            self._text.character(end)
            n += 1
            if end == "]" and self._text.peek() == "-" and self._text.peek(1) != "]":
                self._text.at += 1
                self._text.character(end)
                n += 1
        self._text.at += 1
        return n

    # ---- repetitions

    def _repeat(self, stack: list[_Open]) -> None:
        opened, place = stack[-1], self._text.at
        least, most = self._bounds(stack)
        if opened.start == len(opened.items):
            raise Refusal("there is nothing here that could be repeated", place)
        if most is not None and most < least:
            raise Refusal(f"a repetition from {least} to {most} times ends before it begins", place)
        n_times = most or least or 1
        if least > MAX_REPETITIONS or opened.n_made * n_times > MAX_REPETITIONS:
            raise Refusal(f"repetitions come to more than {MAX_REPETITIONS} rules", place)
        n_optional = 1 if most is None else most - least
        self._count(opened.weight * (max(0, least - 1) + n_optional) + 3 * n_optional)
        item = opened.items[opened.start :]
        del opened.items[opened.start :]
        opened.items.extend(item * min(least, 2))
        if n_optional:
            opened.items.append(self._optional(opened.rule.name, item, most, n_optional))
        opened.n_made *= n_times

    def _optional(self, name: str, item: list[int], most: int | None, n: int) -> int:
        """The rule for what may follow: the item again and again, or up to n times (two levels show what there is)."""
        number = self._new_rule(name)
        following: list[int] = []
        if most is None:
            following = [number]
        elif n > 1:
            self._n_unwritten += n - 2
            following = [self._new_rule(name)]
            self._rules[following[0]].alternatives.extend([list(item), []])
        self._rules[number].alternatives.extend([item + following, []])
        return number

    def _bounds(self, stack: list[_Open]) -> tuple[int, int | None]:
        character = self._text.peek()
        self._text.at += 1
        if character != "{":
            self._space(stack)
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[character]
        self._space(stack)
        least = self._number()
        self._space(stack)
        most: int | None = least
        if self._text.peek() == ",":
            self._text.at += 1
            self._space(stack)
            most = self._number() if self._text.peek().isdecimal() else None
            self._space(stack)
        self._text.take(CLOSING_BRACE, "'}'")
        self._space(stack)
        return least, None if most is not None and most > MAX_REPETITIONS else most

    def _number(self) -> int:
        digits = self._text.take(INTEGER, "a whole number")
        if len(digits) > 9:
            raise Refusal(f"the number {digits[:9]}… is too large", self._text.at - len(digits))
        return int(digits)
