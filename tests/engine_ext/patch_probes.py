"""Questions to libllama whose answers our patches change; each is asked in a process of its own, since it may abort.

    python -m tests.engine_ext.patch_probes PROBE MODEL

prints the answer as JSON on the last line. The library is the one that this process's ``llama_cpp`` brings.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.engine_ext.bare_llama import ON_DEVICE, PARTIAL, Context, Row, load, rows_of, tokens_of
from tests.engine_ext.bare_rpc import COPY_TENSOR, GRAPH_COMPUTE, CountedMessages, device_of, wait_for
from tests.models.rpc_server import RpcServerProcess

_FLAGS = PARTIAL | ON_DEVICE
_PROMPT = 9


def _open(path: Path, **settings: int | bool) -> Context:
    model = load(path)
    assert model is not None
    return Context(model, **settings)  # type: ignore[arg-type]


def _after(context: Context, seq: int, position: int) -> bytes:
    """The logits of one more token; tells one state from another, to the last bit."""
    context.decode(rows_of(seq, 1, position))
    return context.logits().tobytes()


def _prompted(path: Path, **settings: int | bool) -> Context:
    context = _open(path, **settings)
    context.decode(rows_of(0, _PROMPT))
    return context


def _refused_restore(path: Path, spoil: Callable[[Context, bytes], tuple[bytes, int]]) -> dict[str, object]:
    """Save, decode 3 tokens, and restore what ``spoil`` makes of the state: is it refused, and is nothing changed?"""
    expected = _open(path)
    expected.decode(rows_of(0, _PROMPT))
    expected.decode(rows_of(0, 3, _PROMPT))
    context = _prompted(path)
    state, flags = spoil(context, context.save(0, _FLAGS))
    context.decode(rows_of(0, 3, _PROMPT))
    taken = context.restore(0, state, flags)
    position = context.last_position(0)
    same = _after(context, 0, _PROMPT + 3) == _after(expected, 0, _PROMPT + 3)
    return {"taken": taken, "position": position, "is_unchanged": same}


def restore_of_nothing_saved(path: Path) -> dict[str, object]:
    """A state that another context saved: this one's device holds none."""
    other = _prompted(path).save(0, _FLAGS)
    context = _prompted(path)
    taken = context.restore(0, other, _FLAGS)
    same = _after(context, 0, _PROMPT) == _after(_prompted(path), 0, _PROMPT)
    return {"taken": taken, "position": context.last_position(0) - 1, "is_unchanged": same}


def restore_with_bad_magic(path: Path) -> dict[str, object]:
    """The first byte is another."""
    return _refused_restore(path, lambda _, state: (bytes([state[0] ^ 1]) + state[1:], _FLAGS))


def restore_of_other_size(path: Path) -> dict[str, object]:
    """Bytes are missing at the end."""
    return _refused_restore(path, lambda _, state: (state[:-4], _FLAGS))


def restore_with_bytes_too_many(path: Path) -> dict[str, object]:
    """There are bytes after the end."""
    return _refused_restore(path, lambda _, state: (state + b"\0\0\0\0", _FLAGS))


def restore_of_another_kind(path: Path) -> dict[str, object]:
    """Saved in part, restored as if it were whole."""
    return _refused_restore(path, lambda _, state: (state, ON_DEVICE))


def restore_of_an_older_state(path: Path) -> dict[str, object]:
    """A newer one, of another position, has taken its place on the device."""

    def outdate(context: Context, state: bytes) -> tuple[bytes, int]:
        context.decode(rows_of(0, 1, _PROMPT))
        context.save(0, _FLAGS)
        context.clear()
        context.decode(rows_of(0, _PROMPT))
        return state, _FLAGS

    return _refused_restore(path, outdate)


def save_into_too_little_room(path: Path) -> dict[str, object]:
    """It is refused, and the state that was saved before stays good."""
    context = _prompted(path)
    state = context.save(0, _FLAGS)
    context.decode(rows_of(0, 3, _PROMPT))
    return {"saved": len(context.save(0, _FLAGS, room=len(state) - 4)), **_back_to(context, path, state)}


def save_without_memory_for_it(path: Path) -> dict[str, object]:
    """The first allocation is granted; then the process may not grow, and a second sequence wants its own."""
    context = _open(path, n_seq=2)
    context.decode(rows_of(0, _PROMPT))
    context.decode(rows_of(1, _PROMPT))
    state = context.save(0, _FLAGS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 20), limits[1]))
    saved = len(context.save(1, _FLAGS))
    resource.setrlimit(resource.RLIMIT_AS, limits)
    context.decode(rows_of(0, 3, _PROMPT))
    return {"saved": saved, **_back_to(context, path, state, n_seq=2)}


def _back_to(context: Context, path: Path, state: bytes, **settings: int) -> dict[str, object]:
    """Whether a state of the prompt can still be restored, and gives the logits that a fresh context gives."""
    taken = context.restore(0, state, _FLAGS)
    context.remove_from(0, _PROMPT)  # the attention's part
    return {"taken": taken, "is_right": _after(context, 0, _PROMPT) == _after(_prompted(path, **settings), 0, _PROMPT)}


def device_state_of_several_ranges(path: Path) -> dict[str, object]:
    """All sequences at once lie in two ranges of cells when one between them is free."""
    context = _open(path, n_seq=3)
    for seq in range(3):
        context.decode(rows_of(seq, _PROMPT))
    context.remove_from(1, 0)
    saved = len(context.save(-1, _FLAGS))
    fresh = _open(path, n_seq=3)
    fresh.decode(rows_of(0, _PROMPT))
    return {"saved": saved, "is_unchanged": _after(context, 0, _PROMPT) == _after(fresh, 0, _PROMPT)}


def rows_of_masked_outputs(path: Path) -> dict[str, object]:
    """Two rows of an MTP context, the second an output: its hidden row, whether the first is an output or not."""
    model = load(path)
    assert model is not None
    target = Context(model)
    draft = Context(model, target=target)
    draft.keep_hidden_rows(masked=True)
    hidden = np.sin(0.7 * np.arange(draft.n_embd, dtype=np.float32))
    found = []
    for first_is_output in (True, False):
        draft.clear()
        draft.decode([Row(0, 5, 0, first_is_output, hidden), Row(0, 9, 1, True, hidden)])
        found.append(draft.hidden(1))
    difference = float(np.abs(found[0] - found[1]).max() / np.abs(found[0]).max())
    return {"is_right": difference < 1e-3, "difference": difference}


def mtp_context(path: Path) -> dict[str, object]:
    """Whether the model loads with its MTP layers, and whether an MTP context is made."""
    model = load(path)
    if model is None:
        return {"loads": False, "is_made": False}
    try:
        Context(model, target=Context(model))
    except RuntimeError:
        return {"loads": True, "is_made": False}
    return {"loads": True, "is_made": True}


def mtp_context_of_layers_not_loaded(path: Path) -> dict[str, object]:
    """The file has MTP layers, but the model was loaded without them."""
    model = load(path, load_mtp=False)
    assert model is not None
    try:
        Context(model, target=Context(model))
    except RuntimeError:
        return {"is_made": False}
    return {"is_made": True}


def rollbacks(path: Path) -> list[dict[str, object]]:
    """Decode n tokens after the prompt, for n = 1 to 5, and drop the newest k of them: is it granted, is it right?"""
    context = _open(path, n_rs_seq=3)
    answers: list[dict[str, object]] = []
    for n in range(1, 6):
        for k in range(1, n + 1):
            context.clear()
            context.decode(rows_of(0, _PROMPT))
            context.decode(rows_of(0, n, _PROMPT))
            granted = context.remove_from(0, _PROMPT + n - k)
            position = context.last_position(0)
            found = _after(context, 0, position + 1)
            context.clear()
            context.decode(rows_of(0, _PROMPT))
            for i in range(position + 1 - _PROMPT):
                context.decode(rows_of(0, 1, _PROMPT + i))
            difference = np.abs(
                np.frombuffer(found, np.float32) - np.frombuffer(_after(context, 0, position + 1), np.float32)
            )
            answers.append(
                {"n": n, "k": k, "granted": granted, "position": position, "difference": float(difference.max())}
            )
    return answers


def rollbacks_after_states_have_moved(path: Path) -> dict[str, object]:
    """Slots 0, 2 and 3 decode 4 tokens at once, in two pieces (0; 2 and 3), and go back 2: is the next decode right?

    In ``moved`` the prompts came in another order, so the second piece moves the state of slot 0; in ``still`` they
    came in the order of their numbers, and nothing moves.
    """
    found = {}
    for name, order in {"still": (0, 2, 3), "moved": (2, 0, 3)}.items():
        context = _open(path, n_seq=4, n_rs_seq=3)
        for seq in order:
            context.decode(rows_of(seq, _PROMPT))
        context.decode([row for seq in (0, 2, 3) for row in rows_of(seq, 4, _PROMPT)])
        granted = [context.remove_from(seq, _PROMPT + 2) for seq in (0, 2, 3)]
        context.decode([row for seq in (0, 2, 3) for row in rows_of(seq, 1, _PROMPT + 2)])
        found[name] = (granted, [context.logits(i).tobytes() for i in range(3)])
    return {
        "granted": found["moved"][0],
        "are_equal": [a == b for a, b in zip(found["still"][1], found["moved"][1], strict=True)],
    }


def random_rollbacks(path: Path) -> dict[str, object]:
    """Five slots decode and go back as a die falls, many at once and in any order; each against a context of its own.

    ``difference``: the largest of all logits after a decode, from those of the same tokens decoded alone.
    """
    die = np.random.default_rng(3)
    model = load(path)
    assert model is not None
    context, alone = Context(model, n_seq=5, n_rs_seq=3), Context(model)
    tokens: list[list[int]] = [[] for _ in range(5)]
    difference, n_granted = 0.0, 0
    for _ in range(40):
        rows: list[Row] = []
        last = {}
        for seq in (int(seq) for seq in die.permutation(5)[: die.integers(1, 6)]):
            for token in die.integers(5, 195, die.integers(1, 6)).tolist():
                rows.append(Row(seq, token, len(tokens[seq])))
                tokens[seq].append(token)
            last[seq] = len(rows) - 1
        context.decode(rows)
        for seq, index in last.items():
            alone.clear()
            alone.decode([Row(0, token, position) for position, token in enumerate(tokens[seq])])
            difference = max(difference, float(np.abs(context.logits(index) - alone.logits()).max()))
        for seq in range(5):
            n_back = int(die.integers(0, 4))
            if 0 < n_back < len(tokens[seq]) and context.remove_from(seq, len(tokens[seq]) - n_back):
                del tokens[seq][-n_back:]
                n_granted += 1
    return {"difference": difference, "n_granted": n_granted}


def messages_of_device_states(path: Path) -> dict[str, object]:
    """What a save and a restore send to a server, and whether the state comes back."""
    server = RpcServerProcess()
    messages = CountedMessages(server.port)
    device = device_of(messages.name)
    model = load(path, device=device)
    assert model is not None
    context = Context(model)
    context.decode(rows_of(0, _PROMPT))

    def sent(work: Callable[[], object]) -> list[int]:
        wait_for(device)
        messages.counts.clear()
        work()
        wait_for(device)
        return [messages.counts[GRAPH_COMPUTE], messages.counts[COPY_TENSOR]]

    state = context.save(0, _FLAGS)
    of_save = sent(lambda: context.save(0, _FLAGS))
    expected = _after(context, 0, _PROMPT)
    context.decode(rows_of(0, 3, _PROMPT + 1))
    of_restore = sent(lambda: context.restore(0, state, _FLAGS))
    context.remove_from(0, _PROMPT)
    is_right = _after(context, 0, _PROMPT) == expected
    server.close()
    return {"save": of_save, "restore": of_restore, "is_right": is_right}


def _asked_for_huge_pages() -> int:
    """Bytes of this process's memory for which somebody has asked for huge pages."""
    total = size = 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if line.startswith("Size:"):
            size = int(line.split()[1]) * 1024
        elif line.startswith("VmFlags:") and "hg" in line.split():
            total += size
    return total


def bytes_in_huge_pages(path: Path) -> dict[str, object]:
    """How much memory a context and a device state of a sequence ask to have in huge pages."""
    before = _asked_for_huge_pages()
    context = _prompted(path)
    after_context = _asked_for_huge_pages()
    context.save(0, _FLAGS)
    return {"context": after_context - before, "device_state": _asked_for_huge_pages() - after_context}


def sequence_among_other_streams(path: Path) -> list[dict[str, object]]:
    """The whole state of a sequence of three, into contexts with other numbers of streams: taken, and right?"""
    model = load(path)
    assert model is not None
    source = Context(model, n_seq=3)
    source.decode(rows_of(1, _PROMPT))
    state = source.save(1, 0)
    found: list[dict[str, object]] = []
    for seq, settings in ((2, {"n_seq": 3}), (0, {"n_seq": 1}), (1, {"n_seq": 2}), (1, {"n_seq": 3, "unified": True})):
        context = Context(model, **settings)  # type: ignore[arg-type]
        taken = context.restore(seq, state, 0)
        is_right = False
        if taken:
            context.decode([Row(seq, tokens_of(1, 1, _PROMPT)[0], _PROMPT)])
            expected = Context(model, n_seq=3)
            expected.decode(rows_of(1, _PROMPT))
            expected.decode(rows_of(1, 1, _PROMPT))
            is_right = bool(np.abs(context.logits() - expected.logits()).max() < 1e-4)
        found.append({"taken": taken, "is_right": is_right, "position": context.last_position(seq)})
    return found


def main() -> None:
    """Ask one question."""
    print(json.dumps(globals()[sys.argv[1]](Path(sys.argv[2]))))


if __name__ == "__main__":
    main()
