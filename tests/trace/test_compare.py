"""Comparing runs: equal ones show nothing, changes are found, and noise is not called one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from draftscope.engine.events import Kind, Mechanism
from draftscope.trace.acceptance import AcceptanceTable
from draftscope.trace.compare import Comparison, compare
from draftscope.trace.compare_blocks import Measure, RunBlocks, n_blocks_for
from draftscope.trace.compare_figures import Unit, describe, measures_of, rank
from draftscope.trace.compare_noise import MIN_FACTOR, Verdict, judge
from draftscope.trace.compare_words import ratio_words
from draftscope.trace.trace import Trace
from tests.trace.compared import n_rounds, run
from tests.trace.synthetic import make_records, make_store

COUNT, KV = describe("n_saves"), describe("memory_bytes.kv")
ALL_NAMES = ("tokens_per_second", "round_us", "acceptance", "mean_accepted_length", "n_saves", "memory_bytes.kv")


def judged(comparison: Comparison, name: str) -> Verdict:
    """The verdict on a figure."""
    return next(row.judged.verdict for row in comparison.figures if row.figure.name == name)


def ratio(comparison: Comparison, name: str) -> float:
    """The ratio of a figure."""
    return next(row.judged.ratio for row in comparison.figures if row.figure.name == name)


def test_two_equal_runs_show_no_difference() -> None:
    comparison = compare([run()], [run()])
    assert comparison.differences == ()
    assert comparison.changes == ()
    assert comparison.outputs.are_equal
    assert {row.judged.verdict for row in comparison.figures} == {Verdict.EQUAL}
    assert comparison.shown() == ()


def test_two_runs_of_which_only_the_times_scatter_show_no_difference() -> None:
    changed = [row.figure.name for seed in range(40) for row in compare([run()], [run(seed=seed)]).changes]
    assert changed == []


def test_repeats_of_which_only_the_times_scatter_show_no_difference() -> None:
    for first in range(0, 60, 12):
        ours = [run(seed=seed) for seed in range(first, first + 6)]
        theirs = [run(seed=seed) for seed in range(first + 6, first + 12)]
        assert compare(ours, theirs).changes == ()


def test_a_run_that_takes_four_times_as_long_is_slower_in_everything_timed() -> None:
    comparison = compare([run()], [run(factor=4.0, seed=1)])
    assert judged(comparison, "tokens_per_second") is Verdict.LOWER
    for name in ("round_us", "verify_us", "draft_us", "save_us", "restore_us"):
        assert judged(comparison, name) is Verdict.HIGHER, name
        assert ratio(comparison, name) == pytest.approx(4.0, rel=0.25), name
    assert judged(comparison, "acceptance") is Verdict.EQUAL


def test_a_small_change_of_speed_is_found_with_repeats_and_not_without() -> None:
    ours = [run(seed=seed) for seed in range(8)]
    theirs = [run(factor=1.25, seed=seed + 100) for seed in range(8)]
    assert judged(compare(ours[:1], theirs[:1]), "tokens_per_second") is Verdict.NOISE
    comparison = compare(ours, theirs)
    assert judged(comparison, "tokens_per_second") is Verdict.LOWER
    assert ratio(comparison, "tokens_per_second") == pytest.approx(1 / 1.25, rel=0.05)


def test_the_interval_is_about_the_true_ratio_999_times_of_1000() -> None:
    random = np.random.default_rng(5)
    n_inside = 0
    for _ in range(2_000):
        a, b = (Measure(0.0, np.exp(random.normal(shift, 0.2, 10))) for shift in (0.0, math.log(3.0)))
        found = judge(
            [Measure(1.0, a.units)], [Measure(float(np.exp(np.mean(np.log(b.units / a.units)))), b.units)], COUNT
        )
        n_inside += found.low <= 3.0 <= found.high
    assert n_inside >= 1_990


def test_without_repeats_times_change_from_a_factor_on_and_counts_at_once() -> None:
    units = np.exp(np.random.default_rng(0).normal(0.0, 0.01, 10))

    def verdict(factor: float, name: str) -> Verdict:
        return judge([Measure(1.0, units)], [Measure(factor, factor * units[::-1])], describe(name)).verdict

    assert verdict(MIN_FACTOR * 0.95, "round_us") is Verdict.NOISE
    assert verdict(MIN_FACTOR * 1.05, "round_us") is Verdict.HIGHER
    assert verdict(0.95 / MIN_FACTOR, "tokens_per_second") is Verdict.LOWER
    assert verdict(1.2, "n_saves") is Verdict.HIGHER


def test_bytes_change_from_a_thousandth_on_and_single_counts_are_not_judged() -> None:
    assert judge([Measure(1e6)], [Measure(1e6 + 1_100)], KV).verdict is Verdict.HIGHER
    assert judge([Measure(1e6)], [Measure(1e6 + 900)], KV).verdict is Verdict.NOISE
    assert judge([Measure(0.0)], [Measure(4.0)], KV).verdict is Verdict.HIGHER
    assert judge([Measure(59.0)], [Measure(61.0)], COUNT).verdict is Verdict.TOO_FEW
    assert judge([Measure(59.0)], [None], COUNT).verdict is Verdict.ONLY_A
    assert judge([None], [Measure(59.0)], COUNT).verdict is Verdict.ONLY_B


# Compute buffers of five runs and five more of the same prompts, as they were told.
_SCATTERING = ((16106720, 15787744, 16305216, 15921568, 15921568), (16106720, 15787744, 16106720, 15787744, 15305888))


@pytest.mark.parametrize("name", ["memory_bytes", "memory_bytes.compute"])
def test_bytes_that_scatter_from_run_to_run_are_no_change(name: str) -> None:
    ours, theirs = ([Measure(float(size)) for size in side] for side in _SCATTERING)
    found = judge(ours, theirs, describe(name))
    assert found.low < 1 < found.high
    assert found.verdict is Verdict.NOISE
    for one in ours:
        for other in theirs:
            verdict = judge([one], [other], describe(name)).verdict
            assert verdict is (Verdict.EQUAL if one.value == other.value else Verdict.TOO_FEW)


def test_bytes_that_differ_by_more_than_they_scatter_are_a_change() -> None:
    ours, theirs = ([Measure(float(size)) for size in side] for side in _SCATTERING)
    twice = [Measure(2 * measure.value) for measure in theirs]
    for n in (1, 3, 5):
        assert judge(ours[:n], twice[:n], describe("memory_bytes.compute")).verdict is Verdict.HIGHER
    assert judge([Measure(1e6)] * 5, [Measure(1e6 + 2_000)] * 5, KV).verdict is Verdict.HIGHER
    assert judge([Measure(1e6)] * 5, [Measure(1e6 + 900)] * 5, KV).verdict is Verdict.NOISE


def test_a_few_repeats_whose_bytes_scatter_more_than_they_differ_are_not_judged() -> None:
    ours, theirs = ([Measure(size) for size in sizes] for sizes in ((100.0, 110.0, 105.0), (104.0, 112.0, 108.0)))
    assert judge(ours, theirs, KV).verdict is Verdict.TOO_FEW
    assert judge([Measure(0.0), Measure(4.0)], [Measure(4.0), Measure(0.0)], KV).verdict is Verdict.TOO_FEW


def test_nothing_is_called_a_change_where_1_lies_inside_of_the_interval() -> None:
    random = np.random.default_rng(11)
    for unit in Unit:
        figure = next(row for row in map(describe, ALL_NAMES) if row.unit is unit)
        for _ in range(200):
            ours, theirs = ([Measure(float(np.exp(x))) for x in random.normal(0, 0.1, 5)] for _ in "ab")
            found = judge(ours, theirs, figure)
            assert found.verdict.is_change == (not found.low <= 1 <= found.high), figure.name


def test_times_of_ways_back_are_told_by_mechanism_and_together() -> None:
    comparison = compare([run(mechanism=Mechanism.HOST)], [run(mechanism=Mechanism.HOST, n_slots=2)])
    names = [row.figure.name for row in comparison.figures]
    assert "save_us" in names and "save_us.host" in names
    assert names == sorted(names, key=rank)
    assert "save_us.host" not in [row.figure.name for row in comparison.shown()]  # it repeats the one above


def test_figures_agree_with_the_table_of_acceptance() -> None:
    trace = run()
    table = AcceptanceTable()
    table.update(trace.store)
    total = table.total()
    found = measures_of(trace, 10)
    assert found["acceptance"].value == pytest.approx(total.rate)
    assert found["mean_accepted_length"].value == pytest.approx(total.mean_accepted_length)
    for position, share in enumerate(total.per_position, 1):
        assert found[f"acceptance_at_{position}"].value == pytest.approx(share)
    assert found["n_tokens"].value == total.n_tokens
    # The table counts the first token of each slot too, which no round gave.
    assert found["tokens_per_second"].value == pytest.approx(total.tokens_per_second, rel=0.02)


def test_blocks_have_equal_shares_of_the_tokens_and_make_up_the_run() -> None:
    store = make_store(make_records(80))
    blocks = RunBlocks(store, 10)
    shares = np.bincount(blocks.block, blocks.tokens) / blocks.tokens.sum()
    assert len(shares) == 10
    assert shares == pytest.approx(np.full(10, 0.1), abs=0.03)
    assert (np.diff(blocks.block) >= 0).all()
    first, last = (store.kind(Kind.ROUND)["t_start_ns"].min(), store.kind(Kind.ROUND)[-1])
    assert blocks.period_ns.sum() == last["t_start_ns"] + last["duration_ns"] - first


@pytest.mark.parametrize(("rounds", "blocks"), [(0, 1), (3, 1), (20, 5), (1_000, 10)])
def test_short_runs_have_fewer_blocks(rounds: int, blocks: int) -> None:
    assert n_blocks_for(rounds) == blocks


def test_a_trace_without_rounds_can_be_compared() -> None:
    comparison = compare([Trace()], [run()])
    assert judged(comparison, "tokens_per_second") is Verdict.ONLY_B
    assert comparison.outputs.why_not == "A does not have any output."


def test_unequal_numbers_of_runs_are_refused() -> None:
    with pytest.raises(ValueError, match="As many runs"):
        compare([run()], [run(), run()])
    with pytest.raises(ValueError, match="As many runs"):
        compare([], [])


def test_what_a_file_lacks_is_said_of_its_side() -> None:
    ours = run()
    ours.missing.append("The recording was cut off.")
    theirs = run()
    theirs.store.n_missing = 3
    assert compare([ours], [theirs]).missing == (
        "A: The recording was cut off.",
        "B: 3 records are missing; counts are too low by them.",
    )


def test_every_figure_that_a_run_has_is_described() -> None:
    trace = run()
    for name in measures_of(trace, 10):
        assert describe(name).definition
    with pytest.raises(KeyError):
        describe("nonsense")
    assert n_rounds(trace) == 80


@pytest.mark.parametrize(
    ("ratio", "words"),
    [(1.0, "1.00"), (0.99964, "0.99964"), (1.0042, "1.0042"), (1.0051, "1.01"), (0.832, "0.832"), (math.nan, "")],
)
def test_a_ratio_close_to_1_shows_that_it_is_not_1(ratio: float, words: str) -> None:
    assert ratio_words(ratio) == words
