"""Why a model file cannot be run, found out before libllama sees it.

libllama ends the whole process on several kinds of files (assertions, divisions by zero, null tensors). Each check here
stands for one of them and says what is wrong in a sentence; the checks that only spare a worse message are few.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from draftscope.engine import architectures
from draftscope.engine.errors import ErrorCode, ErrorReport
from draftscope.engine.gguf import GgufFile
from draftscope.engine.gguf_values import BROKEN_HINT, GgufArray, TensorInfo, printable, quoted
from draftscope.engine.hyperparameters import Hyperparameters
from draftscope.engine.mtp_head import MtpFamily, MtpHead

_NEWER = "It needs a newer engine: a newer Draftscope with a newer llama.cpp."
_NEWER_OR_DAMAGED = "The engine is too old for this file (a newer Draftscope has a newer one), or the file is damaged."
_MAX_EXPERTS = 1024
_MAX_GATING = 4
_ROPE_SCALINGS = ("none", "linear", "yarn", "longrope")
_NO_WEIGHT_TYPES = ("Q8_1", "Q8_K", "F64", "I8", "I16", "I64")
_ALWAYS_WINDOWED = ("gemma4", "gemma4-assistant", "step35", "mimo2", "cohere2moe", "dots3note")
_ROTATES = architectures.SINGLE_HEAD | architectures.CHAINED_HEADS | architectures.ASSISTED | {"llama"}
_SAME_KEY_AND_VALUE = (
    "qwen35", "qwen35moe", "qwen3next", "qwen4exp", "glm4moe", "llama", "nemotron_h_moe", "gemma4",
    "gemma4-assistant", "hy_v3",
)  # fmt: skip
_OF_THE_MODEL = (
    "It is a draft file, but no assistant: such layers are used from the model's own file only."
    " Open a file of the model that has them."
)
BESIDE_ITS_TARGET = (
    "It belongs beside its target: open that model, and give this file as its draft model"
    " (--draft-model on the command line, 'Draft model (assistant)' in the window's open dialog)."
)
"""What to do with an assistant that was opened as a model."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What the checks look at. ``is_draft``: the file is not to run, but to draft for another one."""

    file: GgufFile
    model: Hyperparameters
    tensors: Mapping[str, TensorInfo]
    mtp: MtpHead
    is_draft: bool = False

    @property
    def name(self) -> str:
        """The file's path as it may be shown."""
        return printable(str(self.file.path))


def find_obstacle(subject: Subject, *, use_mtp: bool) -> ErrorReport | None:
    """The first thing that keeps the file from being run, or None.

    ``use_mtp``: an MTP context is going to be made, so MTP layers that cannot be used are an obstacle, too.
    """
    for check in _CHECKS:
        if report := check(subject):
            return report
    return _unusable_mtp(subject, use_mtp)


def _bad(subject: Subject, what: str, hint: str = BROKEN_HINT) -> ErrorReport:
    return ErrorReport(ErrorCode.BAD_FILE, f"{subject.name} {what}.", hint)


def _unsupported(subject: Subject, what: str, hint: str = "") -> ErrorReport:
    return ErrorReport(ErrorCode.UNSUPPORTED_MODEL, f"{subject.name} {what}.", hint)


def _architecture(s: Subject) -> ErrorReport | None:
    name = s.model.architecture
    if not name:
        return _bad(s, "does not say which architecture it is of")
    if name not in architectures.KNOWN:
        return _unsupported(
            s, f"is a model of the architecture {quoted(name)}, which this engine does not know", _NEWER
        )
    if name in architectures.DRAFT_ONLY and not s.is_draft:
        return _unsupported(s, f"is a draft file: only the MTP head ({name}) of another model", BESIDE_ITS_TARGET)
    if s.is_draft and name not in architectures.DRAFT_ONLY:
        return _unsupported(
            s,
            f"is no assistant, but a file of the architecture {quoted(name)}",
            "Give the assistant that was made for the model, or none.",
        )
    if name in architectures.NOT_A_LANGUAGE_MODEL:
        return _unsupported(
            s, f"is a part of another model ({name}), not a language model", "Open the language model itself."
        )
    if name in architectures.NO_MEMORY or name == "t5":
        return _unsupported(
            s,
            f"is a model ({name}) that does not write text token by token",
            "Draftscope runs models that generate text.",
        )
    return None


def _contents(s: Subject) -> ErrorReport | None:
    if not s.tensors:
        return _unsupported(
            s,
            "holds a vocabulary only, no weights",
            "Such files serve to test tokenizers; open a file with the model's weights.",
        )
    if "token_embd.weight" not in s.tensors:
        if any(".nextn." in name or name.startswith("nextn.") for name in s.tensors):
            return _unsupported(
                s,
                "holds only the MTP layers of a model: it has no token embeddings",
                _OF_THE_MODEL,
            )
        return _unsupported(
            s,
            "lacks the tensor 'token_embd.weight'",
            "The engine is too old for this file (a newer Draftscope has a newer one), or it is no language model.",
        )
    if s.model.n_layer_all == 0:
        return _bad(s, "does not say how many layers it has")
    if s.is_draft:
        return _parts_of_assistant(s)
    trunk = tuple(f"blk.{layer}." for layer in range(s.model.n_layer))
    if s.model.n_layer == 0 or not any(name.startswith(trunk) for name in s.tensors):
        return _unsupported(s, "holds only the MTP layers of a model", _OF_THE_MODEL)
    if "blk.0.attn_norm.weight" not in s.tensors and s.model.n_layer_nextn:
        return _unsupported(s, "lacks the tensor 'blk.0.attn_norm.weight'", _NEWER_OR_DAMAGED)
    return None


def _parts_of_assistant(s: Subject) -> ErrorReport | None:
    """Its layers are all MTP layers, and two projections lead into and out of them."""
    if s.model.n_layer:
        return _bad(s, f"claims {s.model.n_layer} layers that are no MTP layers, which no assistant has")
    if s.mtp.missing:
        return _unsupported(s, f"lacks the tensor {quoted(s.mtp.missing[0])}", _NEWER_OR_DAMAGED)
    return None


def _tokenizer(s: Subject) -> ErrorReport | None:
    kind = s.model.text("tokenizer.ggml.model")
    if kind in ("", "none", "no_vocab"):
        stated = s.model.number("vocab_size")
        rows = s.tensors["token_embd.weight"].shape[-1]
        if kind and stated not in (0, rows):
            return _bad(s, f"states a vocabulary of {stated} tokens but has embeddings for {rows}")
        return None if kind else _bad(s, "does not say which tokenizer it uses")
    tokens = s.file.metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, GgufArray) or tokens.type_name != "str":
        return _bad(s, "has no list of tokens")
    distinct = {raw or b"[EMPTY_%d]" % i for i, raw in enumerate(tokens.raw_strings())}
    if len(distinct) != len(tokens):
        return _bad(s, f"lists {len(tokens) - len(distinct)} tokens twice in its vocabulary")
    return None


def _experts(s: Subject) -> ErrorReport | None:
    model = s.model
    n = model.number("expert_count")
    used = max(model.per_layer("expert_used_count", 0), default=0)
    groups, groups_used = model.number("expert_group_count"), model.number("expert_group_used_count")
    are_possible = n <= _MAX_EXPERTS and used <= n and (used > 0 or n == 0) and (groups < n or groups == 0)
    if groups > 1 and are_possible:
        are_possible = n % groups == 0 and 0 < groups_used < groups
    if model.architecture == "glm4moe" and n == 0:
        are_possible = False
    gating = model.number("expert_gating_func")
    if gating > _MAX_GATING:
        return _unsupported(s, f"chooses its experts in a way this engine does not know ({gating})", _NEWER)
    if not are_possible:
        return _bad(s, f"has impossible expert counts ({n} experts, {used} used, {groups} groups)")
    return None


def _attention(s: Subject) -> ErrorReport | None:
    model = s.model
    name, n_head = model.architecture, model.heads[0]
    if any(kv and head % kv for head, kv in zip(model.heads, model.kv_heads, strict=True)):
        return _bad(s, "has attention heads that are not a multiple of its key-value heads")
    default = model.n_embd // n_head if n_head else 0
    key, value = model.number("attention.key_length", default), model.number("attention.value_length", default)
    if name in _SAME_KEY_AND_VALUE and key != value:
        return _bad(s, f"has keys of {key} and values of {value} elements, which {name} models cannot have")
    for of_window in ("", "_swa"):
        size = model.number(f"attention.key_length{of_window}", key)
        rotated = model.number(f"rope.dimension_count{of_window}", size)
        if n_head and (rotated > size or rotated % 2 or (rotated == 0 and name in _ROTATES)):
            return _bad(s, f"rotates {rotated} of {size} elements of a head")
        if name == "hy_v3" and rotated != size:
            return _bad(s, f"rotates {rotated} of {size} elements of a head, which hy_v3 models cannot do")
    if name == "gemma4" and model.number("attention.shared_kv_layers") > max(0, model.n_layer_all - 2):
        return _bad(s, "shares the keys and values of too many layers")
    scaling = model.text(f"{name}.rope.scaling.type") or "linear"
    if scaling not in _ROPE_SCALINGS:
        return _unsupported(s, f"scales positions in a way this engine does not know ({quoted(scaling)})", _NEWER)
    if name in _ALWAYS_WINDOWED and not any(model.windowed_layers):
        return _bad(s, f"lists no layer with a sliding window, which {name} models need")
    return None


def _recurrence(s: Subject) -> ErrorReport | None:
    model = s.model
    if not any(model.recurrent_layers):
        return None
    if model.architecture in ("qwen35", "qwen35moe", "qwen3next", "qwen4exp"):
        sizes = {
            key: model.number(f"ssm.{key}") for key in ("conv_kernel", "state_size", "group_count", "time_step_rank")
        }
        if not all(sizes.values()) or sizes["time_step_rank"] % sizes["group_count"]:
            return _bad(s, f"has impossible sizes of its recurrent layers ({sizes})")
        if model.number("ssm.inner_size") != sizes["state_size"] * sizes["time_step_rank"]:
            return _bad(s, "has recurrent layers whose inner size is not their heads times the size of a head")
    return None


def _norms(s: Subject) -> ErrorReport | None:
    for key in ("attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"):
        value = s.model.metadata.get(f"{s.model.architecture}.{key}")
        if isinstance(value, float) and not (math.isfinite(value) and value >= 0):
            return _bad(s, f"has the impossible value {value} for {quoted(key)}")
    return None


def _feed_forward(s: Subject) -> ErrorReport | None:
    """Some architectures take every part of a feed-forward layer as optional, then compute with what is not there."""
    for layer in range(s.model.n_layer_all):
        for kind in ("", "_exps", "_shexp"):
            up, gate_up, down = (f"blk.{layer}.{name}{kind}.weight" for name in ("ffn_up", "ffn_gate_up", "ffn_down"))
            has_up = up in s.tensors or gate_up in s.tensors
            if has_up != (down in s.tensors):
                return _unsupported(s, f"lacks the tensor {quoted(down if has_up else up)}", _NEWER_OR_DAMAGED)
    return None


def _types(s: Subject) -> ErrorReport | None:
    for tensor in s.tensors.values():
        if tensor.name.endswith(".ssm_conv1d.weight") and tensor.type_name != "F32":
            return _bad(s, f"stores {quoted(tensor.name)} as {tensor.type_name}; llama.cpp needs F32 there")
        if len(tensor.shape) > 1 and tensor.name.endswith(".weight") and tensor.type_name in _NO_WEIGHT_TYPES:
            return _bad(s, f"stores {quoted(tensor.name)} as {tensor.type_name}, which is no type for weights")
        if 0 in tensor.shape:
            return _bad(s, f"has the tensor {quoted(tensor.name)} without elements")
    return None


def _unusable_mtp(s: Subject, use_mtp: bool) -> ErrorReport | None:
    mtp = s.mtp
    if s.is_draft or mtp.can_draft or mtp.n_claimed == 0 or (mtp.needs_no_mtp and not use_mtp):
        return None
    named = (
        f" Missing, for example: {quoted(mtp.missing[0])}." if mtp.missing and mtp.family is not MtpFamily.NONE else ""
    )
    way = (
        "Run it without drafting: draft length 0, or --no-mtp on the command line."
        if mtp.needs_no_mtp
        else "Get a file of the model that has its MTP layers, or one without any."
    )
    return ErrorReport(ErrorCode.UNSUPPORTED_MODEL, f"{s.name} cannot be used for drafting: {mtp.reason}{named}", way)


_CHECKS: tuple[Callable[[Subject], ErrorReport | None], ...] = (
    _architecture,
    _contents,
    _tokenizer,
    _experts,
    _attention,
    _recurrence,
    _norms,
    _feed_forward,
    _types,
)
