"""What a model file holds for drafting: the MTP layers it claims, those it has, and whether the engine can use them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from draftscope.engine import architectures
from draftscope.engine.gguf_values import TensorInfo
from draftscope.engine.hyperparameters import Hyperparameters


class MtpFamily(StrEnum):
    """How the MTP layers make a draft of several tokens."""

    NONE = "none"
    SINGLE_HEAD = "single head"
    CHAINED_HEADS = "chained heads"
    ASSISTANT = "assistant"


_MEANINGS = {
    MtpFamily.NONE: "no MTP layers",
    MtpFamily.SINGLE_HEAD: "one head that feeds itself its own output row",
    MtpFamily.CHAINED_HEADS: "one head for each draft step",
    MtpFamily.ASSISTANT: "a second file, which reads the target's keys and values",
}

_NEEDED = ("nextn.eh_proj.weight", "nextn.enorm.weight", "nextn.hnorm.weight")
_NEEDED_TOO = {"mimo2": ("attn_qkv.weight", "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight")}
"""Of single architectures: their MTP graph asserts what their loader takes as optional."""
_LOADS_WITHOUT_TENSORS = frozenset(
    {"glm4moe", "deepseek2", "mistral4", "deepseek32", "deepseek4", "glm-dsa", "bailingmoe3", "cohere2moe"}
    | architectures.CHAINED_HEADS
)
_KEEPS_UNUSED = frozenset({"glm4", "bailingmoe2", "exaone4", "exaone-moe", "dots3note", "gpt-oss"})
_LOW_BITS = ("Q1_", "Q2_", "Q3_", "IQ1_", "IQ2_", "IQ3_", "TQ1_", "TQ2_")


@dataclass(frozen=True, slots=True)
class MtpHead:
    """The MTP layers of a file.

    ``n_claimed``: layers that the metadata claims. ``n_found``: those whose tensors are there. ``types``: bytes of the
    MTP layers' tensors by type, the largest first. ``can_draft``, and ``reason`` in words when not. ``needs_no_mtp``:
    the model itself can be loaded although its MTP layers cannot be used.
    """

    family: MtpFamily
    n_claimed: int
    n_found: int
    missing: tuple[str, ...]
    types: tuple[tuple[str, int], ...]
    can_draft: bool
    reason: str
    needs_no_mtp: bool

    @property
    def meaning(self) -> str:
        """The family in words."""
        return _MEANINGS[self.family]

    def longest_draft(self, asked: int) -> int:
        """Tokens drafted a round where ``asked`` are asked for: chained heads draft one each."""
        if not self.can_draft:
            return 0
        return min(asked, self.n_claimed) if self.family is MtpFamily.CHAINED_HEADS else asked

    @property
    def low_bit_types(self) -> tuple[str, ...]:
        """Types of three bits or less among the MTP tensors; such heads have been seen to accept next to nothing."""
        return tuple(name for name, _ in self.types if name.startswith(_LOW_BITS))


def find_mtp_head(model: Hyperparameters, tensors: Mapping[str, TensorInfo]) -> MtpHead:
    """Compare what the metadata claims with the tensors that are there, and both with what libllama can drive."""
    layers = range(model.n_layer, model.n_layer_all)
    if model.architecture in architectures.DRAFT_ONLY:
        missing = tuple(n for n in ("nextn.pre_projection.weight", "nextn.post_projection.weight") if n not in tensors)
        n_found = 0 if missing else model.n_layer_nextn
    else:
        names = (*_NEEDED, *_NEEDED_TOO.get(model.architecture, ()))
        needed = {layer: [f"blk.{layer}.{name}" for name in names] for layer in layers}
        missing = tuple(name for names in needed.values() for name in names if name not in tensors)
        n_found = sum(all(name in tensors for name in names) for names in needed.values())
    types = Counter[str]()
    prefixes = tuple(f"blk.{layer}." for layer in layers)
    for tensor in tensors.values():
        if prefixes and tensor.name.startswith(prefixes):
            types[tensor.type_name] += tensor.n_bytes
    family = _family(model)
    reason = _why_not(model, family, len(missing))
    return MtpHead(
        family=family,
        n_claimed=model.n_layer_nextn,
        n_found=n_found,
        missing=missing,
        types=tuple(types.most_common()),
        can_draft=not reason,
        reason=reason,
        needs_no_mtp=bool(reason) and model.n_layer_nextn > 0 and _loads_without_mtp(model, bool(missing)),
    )


def _family(model: Hyperparameters) -> MtpFamily:
    name = model.architecture
    if name in architectures.DRAFT_ONLY or (name in architectures.ASSISTED and model.n_layer_nextn == 0):
        return MtpFamily.ASSISTANT
    if model.n_layer_nextn == 0:
        return MtpFamily.NONE
    if name in architectures.CHAINED_HEADS and model.n_layer_nextn > 1:
        return MtpFamily.CHAINED_HEADS
    if name in architectures.CHAINED_HEADS:
        return MtpFamily.SINGLE_HEAD
    return MtpFamily.SINGLE_HEAD if name in architectures.SINGLE_HEAD else MtpFamily.NONE


def _why_not(model: Hyperparameters, family: MtpFamily, n_missing: int) -> str:
    """Why nothing can be drafted with this file alone; empty when it can."""
    n, name = model.n_layer_nextn, model.architecture
    if name in architectures.DRAFT_ONLY:
        return "This file is the MTP head of another model and cannot generate text alone."
    if family is MtpFamily.ASSISTANT:
        return (
            f"{name} models draft with an assistant, a second file, and none was given: --draft-model FILE on the"
            " command line, 'Draft model (assistant)' in the window's open dialog."
        )
    if n == 0:
        return "This file has no MTP layers."
    if family is MtpFamily.NONE:
        return f"The file has {_layers(n)}, but llama.cpp cannot draft with those of {name} models."
    if n_missing:
        return f"The metadata claims {_layers(n)}, but the file lacks {n_missing} of their tensors."
    if family is MtpFamily.SINGLE_HEAD and n > 1:
        return f"The file has {_layers(n)}, but llama.cpp drives exactly one in {name} models."
    return ""


def _loads_without_mtp(model: Hyperparameters, are_missing: bool) -> bool:
    """Whether libllama loads the trunk: most architectures refuse tensors they do not know, or miss those they do."""
    if _family(model) is MtpFamily.NONE:
        return model.architecture in _KEEPS_UNUSED
    return not are_missing or model.architecture in _LOADS_WITHOUT_TENSORS


def _layers(n: int) -> str:
    return "1 MTP layer" if n == 1 else f"{n} MTP layers"
