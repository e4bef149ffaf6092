"""What a check comes to: whether anything differs that must not, and sentences for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from draftscope.base.units import figure
from draftscope.engine.events import Mechanism
from draftscope.engine.probes import Fault, StateStatus
from draftscope.trace.probe_words import FAULT_WORDS

Summary = Mapping[str, Any]


def verdict_of(summary: Summary) -> tuple[bool, list[str]]:
    """Whether something differs that must not, and the verdict in sentences."""
    ways = [way for way in summary["ways"] if way["is_checked"]]
    wrong = [sentence for way in ways for sentence in _wrong(way)]
    sentences = [*_found(summary, ways, wrong), *wrong]
    is_plain = summary["settings"]["fault"] == Fault.NONE.value
    for way in ways:
        told = (*(_worth(way) if is_plain else ()), *_speed(way, summary))
        sentences += [f"{way['label']}: {sentence}" for sentence in told]
    sentences += _remarks(summary, ways)
    return bool(wrong), sentences


def _found(summary: Summary, ways: list[Summary], wrong: list[str]) -> Iterator[str]:
    fault, found = Fault(summary["settings"]["fault"]), summary["diagnosis"]
    n = sum(way["verdicts"]["n"] for way in ways)
    if found:
        yield f"Wrong: {found['words']}. This is so after {found['n']:,} of {found['n_probed']:,} restores."
        yield f"By what was measured it is the fault {found['cause']}."
    elif wrong:
        yield "Wrong: something differs that must not."
    elif ways and n:
        yield _equal(ways, n)
    elif ways:
        yield "Nothing was put back in this workload, so nothing could be compared."
    if fault is not Fault.NONE:
        yield from _injected(fault, summary["n_faults_injected"], n)


def _equal(ways: list[Summary], n: int) -> str:
    """What of the restores is equal to what, where nothing differs."""
    names = ", ".join(way["label"] for way in ways)
    n_rounding, n_none = (
        sum(way["verdicts"]["by_verdict"].get(name, 0) for way in ways) for name in ("rounding", "nothing_compared")
    )
    n_equal = n - n_rounding - n_none
    if n_none == n:
        return f"Nothing of what {n:,} restores put back could be compared ({names})."
    if n_equal == n:
        anew = "; states after rollbacks, which save none, are those of decoding anew" if _has_rollbacks(ways) else ""
        return f"Equal: all that {n:,} restores put back is what was saved{anew} ({names})."
    parts = [f"of {n:,} restores {n_equal:,} are equal in every bit"]
    if n_rounding:
        parts.append(
            f"in {n_rounding:,} rollbacks, which save no state, hidden rows and MTP context are equal, and the "
            "recurrent state is within rounding of decoding the same tokens anew"
        )
    if n_none:
        parts.append(f"in {n_none:,} nothing could be compared")
    return f"Equal, as far as it can be: {'; '.join(parts)} ({names})."


def _has_rollbacks(ways: list[Summary]) -> bool:
    """Whether recurrent states were compared with decoding anew."""
    restores = (restore for way in ways for restore in way["restores"])
    return any(
        restore["mechanism"] == Mechanism.ROLLBACK and restore["state_status"] == StateStatus.EQUAL
        for restore in restores
    )


def _injected(fault: Fault, n_injected: int, n: int) -> Iterator[str]:
    if n_injected:
        yield f"It was injected on purpose in {n_injected:,} of {n:,} restores: {FAULT_WORDS[fault]}."
    else:
        yield f"The fault {fault.value} could be injected in none of {n:,} restores: there was nothing to spoil."


def _wrong(way: Summary) -> Iterator[str]:
    """What must not be, a sentence each."""
    verdicts, rows, tokens = way["verdicts"], way["rows_in_use"], way["tokens"]
    if verdicts["n_differing"]:
        first = verdicts["first"][0]
        yield f"{way['label']}: {verdicts['n_differing']:,} of {verdicts['n']:,} restores differ, such as {first}."
    if rows["n"] != rows["n_right"]:
        yield f"{way['label']}: {rows['words']}."
    if tokens["n_other"]:
        first = next(d for d in tokens["differences"] if d["sort"] == "other")
        yield (
            f"{way['label']}: {tokens['n_other']:,} of {tokens['n_replies']:,} replies are not those without MTP, such "
            f"as that to prompt {first['prompt'] + 1} from token {first['index'] + 1} on."
        )
    for error in way["errors"]:
        yield f"{way['label']}: a task failed: {error}"


def _worth(way: Summary) -> Iterator[str]:
    """What leaving out the hook would do, by the probes: of restored prompts, and of rejected drafts."""
    for name, which in (("restored prompts", False), ("rejected drafts", True)):
        groups = [group for group in way["positions"] if (group["kind"] == "rejection") is which and group["n_rows"]]
        if not groups:
            continue
        omitted = [group["omitted"] for group in groups]
        n, n_changed, n_top, n_followed = (
            sum(of[key] for of in omitted) for key in ("n_vectors", "n_vectors_changed", "n_top_changed", "n_followed")
        )
        n_rows, n_off = sum(group["n_rows"] for group in groups), sum(of["n_differing"] for of in omitted)
        sizes = [of[key] for of in omitted for key in ("least_max_abs", "max_abs") if of[key] is not None]
        saved, other = sum(of["accepted_saved"] for of in omitted), sum(of["accepted"] for of in omitted)
        yield (
            f"without the hook the hidden row would be wrong after {n_off:,} of {n_rows:,} {name} (max |d| "
            f"{figure(min(sizes))} to {figure(max(sizes))}); it would change {n_changed:,}/{n:,} draft-logit vectors "
            f"and {n_top:,} of {n:,} likeliest tokens, and of {n_followed:,} tokens that followed, these "
            f"drafts would have {other:,} right instead of {saved:,}."
        )


def _speed(way: Summary, summary: Summary) -> Iterator[str]:
    timed, fault = way["timed"], summary["settings"]["fault"]
    if timed is None:
        return
    what = "leaving out the hook" if fault == Fault.NONE.value else f"the fault {fault}"
    ours, other, change = timed["enabled"], timed["other"], timed["change"]
    if ours["acceptance"] is None or other["acceptance"] is None or change["ratio"] is None:
        return
    acceptance = f"acceptance from {_exactly(ours['acceptance'])} to {_exactly(other['acceptance'])}"
    speed = f"speed by {_signed(change['ratio'])}"
    if change["low"] is None:
        pairs = "1 pair" if timed["n_pairs"] == 1 else f"{timed['n_pairs']} pairs"
        yield f"{what} changes {acceptance}; {speed} in {pairs} of runs, too few to tell it from noise."
        return
    interval = f"{_signed(change['low'])} to {_signed(change['high'])} by the pairs' scatter"
    if timed["is_effect"]:
        yield f"{what} changes {acceptance} and {speed} ({interval})."
    else:
        yield f"{what} changes {acceptance}; {speed} is no more than noise ({interval})."


def _signed(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f} %"


def _exactly(share: float) -> str:
    return f"{share * 100:.1f} %"


def _remarks(summary: Summary, ways: list[Summary]) -> Iterator[str]:
    """What could not be checked."""
    if remark := summary["workload"]["remark"]:
        yield remark
    for way in ways:
        if not way["speculation"]["is_active"]:
            yield f"Nothing is drafted, so there are no hidden rows to check: {way['speculation']['reason']}"
        tokens = way["tokens"]
        if near := tokens["n_near_ties"] + tokens["n_perhaps"]:
            sure = f" ({tokens['n_perhaps']} of them as far as is on record)" if tokens["n_perhaps"] else ""
            many = f"{near} of {tokens['n_replies']} replies"
            yield f"{way['label']}: {many} part from those without MTP at a near-tie{sure}."
        if way["n_dropped"]:
            yield f"{way['label']}: {way['n_dropped']:,} records were lost, because they were not read in time."
    if ways and not summary["model"]["is_recurrent"]:
        yield "This model has no recurrent layers: going back drops the newest keys and values; no state is put back."
    if summary["is_interrupted"]:
        yield "Interrupted: this is what was measured until then."
