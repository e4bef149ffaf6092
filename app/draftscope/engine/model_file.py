"""What a model file is, before anything is loaded: the facts that ``info`` shows and the check that loads rely on."""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from draftscope.engine import architectures
from draftscope.engine.errors import EngineError, ErrorCode, ErrorReport
from draftscope.engine.gguf import GgufFile, open_gguf
from draftscope.engine.gguf_values import GgufArray, TensorInfo, bad_file, quoted
from draftscope.engine.hyperparameters import Hyperparameters
from draftscope.engine.model_memory import MemoryNeeds, predict_memory
from draftscope.engine.mtp_head import MtpHead, find_mtp_head
from draftscope.engine.obstacles import Subject, find_obstacle
from draftscope.engine.shared_keys import SharedKeys, find_mismatch, find_shared_keys

_SPLIT_NAME = re.compile(r"(?P<prefix>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)
_OTHER_PARTS = "Put all parts into one folder and open the first one."


@dataclass(frozen=True, slots=True)
class WayBackFact:
    """A way in which the target can go back after a rejected draft: llama.cpp's word for it, whether, and why (not)."""

    name: str
    is_possible: bool
    why: str


@dataclass(frozen=True, slots=True)
class DraftFile:
    """The second file of a model that drafts with an assistant."""

    path: Path
    architecture: str
    size_bytes: int
    n_params: int


@dataclass(frozen=True, slots=True)
class ModelFile:
    """The facts of one model file (all parts of a split one).

    Sizes in bytes. ``types``: bytes of all tensors by type, the largest first. ``metadata``: every value; arrays as a
    short text. ``memory`` is None where it cannot be predicted. ``obstacle``: why the model cannot be run at all, None
    when nothing speaks against it (libllama may still find something). ``draft``: the assistant given with it, whose
    facts ``mtp`` then has. ``shared_keys``: what an assistant and its target must agree in.
    """

    path: Path
    n_parts: int
    size_bytes: int
    gguf_version: int
    architecture: str
    name: str
    licence: str
    n_params: int
    n_tensors: int
    types: tuple[tuple[str, int], ...]
    n_layer: int
    n_embd: int
    n_vocab: int
    n_ctx_train: int
    is_recurrent: bool
    has_tokenizer: bool
    tokenizer: str
    chat_template: str
    mtp: MtpHead
    ways_back: tuple[WayBackFact, ...]
    memory: MemoryNeeds | None
    metadata: Mapping[str, int | float | bool | str]
    obstacle: ErrorReport | None
    shared_keys: SharedKeys | None = None
    draft: DraftFile | None = None


def inspect_model(path: str | os.PathLike[str], draft_path: str | os.PathLike[str] = "") -> ModelFile:
    """Read what a file says about itself, and whether the assistant that is given with it fits.

    Raises:
        EngineError: code BAD_FILE, when one of them is no readable, whole GGUF file or a part of it is missing.
    """
    return _inspect_both(path, draft_path, use_mtp=True)


def check_loadable(
    path: str | os.PathLike[str], draft_path: str | os.PathLike[str] = "", *, use_mtp: bool = True
) -> ModelFile:
    """The same, but refuse all that libllama would end the process on or that cannot generate text.

    ``use_mtp`` False lets pass a model whose MTP layers alone cannot be used.

    Raises:
        EngineError: code BAD_FILE or UNSUPPORTED_MODEL, with the reason and what to do.
    """
    model = _inspect_both(path, draft_path, use_mtp=use_mtp)
    if model.obstacle is not None:
        raise EngineError.from_report(model.obstacle)
    return model


@contextlib.contextmanager
def open_model(path: str | os.PathLike[str]) -> Iterator[list[GgufFile]]:
    """All parts of a model, in their order; one of a file that is whole.

    Raises:
        EngineError: code BAD_FILE, when one is missing, or is no whole GGUF file.
    """
    with ExitStack() as stack:
        file = stack.enter_context(open_gguf(path))
        yield [file, *(stack.enter_context(part) for part in _open_other_parts(file))]


def _inspect_both(path: str | os.PathLike[str], draft_path: str | os.PathLike[str], *, use_mtp: bool) -> ModelFile:
    model = _inspect(path, use_mtp=use_mtp)
    if not os.fspath(draft_path):
        return model
    draft = _inspect(draft_path, use_mtp=True, is_draft=True)
    given = DraftFile(draft.path, draft.architecture, draft.size_bytes, draft.n_params)
    obstacle = model.obstacle or draft.obstacle or _why_no_pair(model, draft)
    if obstacle is not None:
        return replace(model, draft=given, obstacle=obstacle)
    return replace(model, draft=given, mtp=replace(draft.mtp, can_draft=True, reason=""))


def _why_no_pair(model: ModelFile, draft: ModelFile) -> ErrorReport | None:
    name, target = draft.path.name, model.path.name
    if model.shared_keys is None or draft.shared_keys is None:
        what = f"{target} ({model.architecture}) does not draft with an assistant, and {name} is one."
        hint = "It drafts with its own MTP layers: leave the draft model out."
        if not model.mtp.can_draft:
            hint = f"Leave the draft model out. {model.mtp.reason}"
        return ErrorReport(ErrorCode.UNSUPPORTED_MODEL, what, hint)
    if mismatch := find_mismatch(model.shared_keys, draft.shared_keys):
        what = f"{name} is the assistant of another model than {target}: it {mismatch}."
        return ErrorReport(
            ErrorCode.UNSUPPORTED_MODEL, what, "Give the assistant that was made for this model, or none."
        )
    return None


def _inspect(path: str | os.PathLike[str], *, use_mtp: bool, is_draft: bool = False) -> ModelFile:
    with open_model(path) as parts:
        file = parts[0]
        tensors = _join(parts)
        model = Hyperparameters(file)
        mtp = find_mtp_head(model, tensors)
        obstacle = find_obstacle(Subject(file, model, tensors, mtp, is_draft), use_mtp=use_mtp)
        return _facts(parts, model, tensors, mtp, obstacle)


def _facts(
    parts: list[GgufFile],
    model: Hyperparameters,
    tensors: Mapping[str, TensorInfo],
    mtp: MtpHead,
    obstacle: ErrorReport | None,
) -> ModelFile:
    tokenizer = model.text("tokenizer.ggml.model")
    n_tokens = _n_tokens(model)
    embeddings = tensors.get("token_embd.weight")
    n_rows = embeddings.shape[-1] if embeddings and embeddings.shape else 0
    return ModelFile(
        path=parts[0].path,
        n_parts=len(parts),
        size_bytes=sum(part.size_bytes for part in parts),
        gguf_version=parts[0].version,
        architecture=model.architecture,
        name=model.text("general.name"),
        licence=model.text("general.license"),
        n_params=sum(tensor.n_elements for tensor in tensors.values()),
        n_tensors=len(tensors),
        types=_bytes_by_type(tensors),
        n_layer=model.n_layer,
        n_embd=model.n_embd,
        n_vocab=n_tokens or n_rows,
        n_ctx_train=model.number("context_length"),
        is_recurrent=architectures.has_recurrent_state(model.architecture),
        has_tokenizer=n_tokens > 0 and tokenizer not in ("", "none", "no_vocab"),
        tokenizer=tokenizer,
        chat_template=model.text("tokenizer.chat_template"),
        mtp=mtp,
        ways_back=_ways_back(model.architecture),
        memory=predict_memory(model) if tensors else None,
        metadata=MappingProxyType({key: _short(value) for key, value in model.metadata.items()}),
        obstacle=obstacle,
        shared_keys=find_shared_keys(model, tensors),
    )


def _n_tokens(model: Hyperparameters) -> int:
    tokens = model.metadata.get("tokenizer.ggml.tokens")
    return len(tokens) if isinstance(tokens, GgufArray) else 0


def _bytes_by_type(tensors: Mapping[str, TensorInfo]) -> tuple[tuple[str, int], ...]:
    types = Counter[str]()
    for tensor in tensors.values():
        types[tensor.type_name] += tensor.n_bytes
    return tuple(types.most_common())


def _short(value: int | float | bool | str | GgufArray) -> int | float | bool | str:
    return f"{len(value)} x {value.type_name}" if isinstance(value, GgufArray) else value


def _ways_back(architecture: str) -> tuple[WayBackFact, ...]:
    """All ways, the cheapest first. Attention drops its newest tokens at no cost, so it needs none of the others."""
    if architecture not in architectures.KNOWN:
        return ()
    if not architectures.has_recurrent_state(architecture):
        needless = "not needed: keys and values can be dropped"
        return (
            WayBackFact("kv removal", True, "the newest keys and values are dropped; nothing is saved"),
            *(WayBackFact(name, False, needless) for name in ("rollback", "cow", "device", "host")),
        )
    if architecture in architectures.NATIVE_ROLLBACK:
        rollback = WayBackFact("rollback", True, "llama.cpp keeps 1 + draft length states a slot and steps back")
    elif architecture in architectures.PATCHED_ROLLBACK:
        rollback = WayBackFact(
            "rollback", True, "with the llama.cpp that Draftscope builds; others lack it for this architecture"
        )
    else:
        rollback = WayBackFact("rollback", False, f"llama.cpp has no rollback of recurrent states for {architecture}")
    return (
        WayBackFact("kv removal", False, "a recurrent state cannot drop its newest tokens"),
        rollback,
        WayBackFact("cow", True, "checkpoint: a spare sequence shares the state until one of the two is decoded"),
        WayBackFact("device", True, "checkpoint: a copy of the state stays in the device's memory"),
        WayBackFact("host", True, "checkpoint: a copy of the state in the computer's memory"),
    )


def _open_other_parts(file: GgufFile) -> list[GgufFile]:
    """Open parts 2, 3, ... of a split file; none when it is whole."""
    count = file.metadata.get("split.count", 0)
    if type(count) is not int or count <= 1:
        return []
    match = _SPLIT_NAME.fullmatch(str(file.path))
    if match is None or int(match["count"]) != count or count > 99_999:
        what = f"is part of a split model of {count} files, but its name does not end in -00001-of-{count:05d}.gguf"
        raise bad_file(file.path, what, "Give the parts their original names; the others are found by name.")
    if file.metadata.get("split.no") != 0 or int(match["number"]) != 1:
        raise bad_file(file.path, f"is a later part of a split model of {count} files", _OTHER_PARTS)
    with ExitStack() as opened:
        names = {number: f"{match['prefix']}-{number:05d}-of-{count:05d}.gguf" for number in range(2, count + 1)}
        parts = [opened.enter_context(_open_part(file, Path(name), n, count)) for n, name in names.items()]
        opened.pop_all()  # all are there: the caller closes them
        return parts


def _open_part(first: GgufFile, path: Path, number: int, count: int) -> GgufFile:
    if not path.exists():
        raise bad_file(
            first.path, f"is split into {count} files, and part {number} ({path.name}) is missing", _OTHER_PARTS
        )
    part = open_gguf(path)
    if part.types.get("split.no") != "u16" or part.metadata["split.no"] != number - 1:
        part.close()
        raise bad_file(path, f"is not part {number} of {first.path.name}", _OTHER_PARTS)
    return part


def _join(parts: list[GgufFile]) -> dict[str, TensorInfo]:
    tensors: dict[str, TensorInfo] = {}
    for part in parts:
        for tensor in part.tensors:
            if tensor.name in tensors:
                raise bad_file(part.path, f"repeats the tensor {quoted(tensor.name)} of another part", _OTHER_PARTS)
            tensors[tensor.name] = tensor
    expected = parts[0].metadata.get("split.tensors.count")
    if len(parts) > 1 and expected != len(tensors):
        raise bad_file(
            parts[0].path, f"should have {expected} tensors in its parts, but they have {len(tensors)}", _OTHER_PARTS
        )
    return tensors
