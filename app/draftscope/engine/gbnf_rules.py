"""What is wrong with the rules of a grammar: those that begin with themselves, lead nowhere, or branch without end.

libllama follows a rule by putting what is left of it on a stack and going into the rule that it begins with. It looks
for rules that begin with themselves, but only sees that a rule may be empty where it is written so; where it does not
see it, it would go in for ever. It also goes into a rule once for every way there, which a few rules can make more than
there is time for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

TERMINAL = -1
"""A character, a class of them or a token, in the place of a rule's number."""

MAX_WAYS = 10_000
"""Ways into a rule, each a state of libllama's, which compares every new one with all others: 0.3 s for so many."""

MAX_CHAIN = 1000
"""Rules that begin with one another: libllama calls itself for each."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule or a part of one; of each alternative the numbers of its rules, ``TERMINAL`` for anything else."""

    name: str
    alternatives: list[list[int]]


def find_fault(rules: list[Rule]) -> str:
    """What is wrong, as the beginning of a sentence without its full stop; empty when nothing is."""
    can_be_empty = _least(rules, lambda items, known: all(item != TERMINAL and item in known for item in items))
    is_written_empty = {number for number, rule in enumerate(rules) if [] in rule.alternatives}
    edges = [list(_edges(rule, can_be_empty)) for rule in rules]
    component = _components([[to for to, _ in of] for of in edges])
    seen = [
        {i for items in rule.alternatives for i in _first(items, is_written_empty) if i != TERMINAL} for rule in rules
    ]
    seen_component = _components([list(of) for of in seen])
    for number, rule in enumerate(rules):
        grows = any(is_growing and component[to] == component[number] for to, is_growing in edges[number])
        if grows or any(seen_component[to] == seen_component[number] for to in seen[number]):
            return f"the rule {rule.name!r} begins with itself (left recursion), which llama.cpp cannot follow"
    begins = _least(rules, lambda items, known: any(i == TERMINAL or i in known for i in _first(items, can_be_empty)))
    for number, rule in enumerate(rules):
        if number not in begins and number not in can_be_empty:
            return f"the rule {rule.name!r} leads only to itself and never to a character"
    return _find_branching(rules, edges, component, can_be_empty)


def _first(items: list[int], empty: set[int]) -> Iterator[int]:
    """The items that an alternative can begin with: up to the first that cannot be empty."""
    for item in items:
        yield item
        if item == TERMINAL or item not in empty:
            return


def _edges(rule: Rule, can_be_empty: set[int]) -> Iterator[tuple[int, bool]]:
    """The rules that a rule can begin with, once for every way, and whether something stays on the stack meanwhile."""
    for items in rule.alternatives:
        for place, item in enumerate(_first(items, can_be_empty)):
            if item != TERMINAL:
                yield item, place + 1 < len(items)


def _least(rules: list[Rule], holds: Callable[[list[int], set[int]], bool]) -> set[int]:
    """The rules of which some alternative ``holds(items, rules known so far)``, until no more become known."""
    users: list[set[int]] = [set() for _ in rules]
    for number, rule in enumerate(rules):
        for items in rule.alternatives:
            for item in items:
                if item != TERMINAL:
                    users[item].add(number)
    known: set[int] = set()
    due = list(range(len(rules)))
    while due:
        number = due.pop()
        if number not in known and any(holds(items, known) for items in rules[number].alternatives):
            known.add(number)
            due.extend(users[number] - known)
    return known


def _components(edges: list[list[int]]) -> list[int]:
    """The number of each node's strongly connected component (Tarjan's, without recursion); those led to are lower."""
    n = len(edges)
    order, low, component = [-1] * n, [0] * n, [-1] * n
    path: list[int] = []
    n_seen = n_found = 0
    for root in range(n):
        if order[root] >= 0:
            continue
        work = [(root, iter(edges[root]))]
        order[root] = low[root] = n_seen
        n_seen += 1
        path.append(root)
        while work:
            node, following = work[-1]
            to = next(following, None)
            if to is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    while component[node] < 0:
                        component[path.pop()] = n_found
                    n_found += 1
            elif order[to] < 0:
                order[to] = low[to] = n_seen
                n_seen += 1
                path.append(to)
                work.append((to, iter(edges[to])))
            elif component[to] < 0:
                low[node] = min(low[node], order[to])
    return component


def _find_branching(
    rules: list[Rule], edges: list[list[tuple[int, bool]]], component: list[int], can_be_empty: set[int]
) -> str:
    """A rule with too many ways through its beginnings, or too long a chain of them."""
    ways, chain = [1] * len(rules), [1] * len(rules)
    for number in sorted(range(len(rules)), key=lambda n: component[n]):
        outside = [to for to, _ in edges[number] if component[to] != component[number]]
        n_terminals = sum(TERMINAL in _first(items, can_be_empty) for items in rules[number].alternatives)
        ways[number] = 1 + n_terminals + sum(ways[to] for to in outside)
        chain[number] = 1 + max((chain[to] for to in outside), default=0)
        if ways[number] > MAX_WAYS:
            return f"the rule {rules[number].name!r} can begin in more than {MAX_WAYS} ways"
        if chain[number] > MAX_CHAIN:
            return f"more than {MAX_CHAIN} rules begin with one another, down from {rules[number].name!r}"
    return ""
