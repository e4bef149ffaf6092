"""What an assistant, an MTP head in a file of its own, takes from its target, and whether two files agree in it.

Read from the graph of ``gemma4-assistant`` and the cache that it shares in the pinned libllama. It looks nothing up
before it computes: with another width, vocabulary or shape of keys it ends the process, or reads the wrong numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from draftscope.engine import architectures
from draftscope.engine.gguf_values import GgufArray, TensorInfo
from draftscope.engine.hyperparameters import Hyperparameters

KeyShape = tuple[int, int, int]
"""Key-value heads, elements of a key, elements of a value."""


@dataclass(frozen=True, slots=True)
class SharedKeys:
    """One side of the pair.

    ``width``: of a hidden row of the target. ``n_rows``: tokens with an embedding. ``vocabulary``: a fingerprint of the
    tokens' texts, empty where the file has none. ``window``: tokens of the sliding window. ``full``/``windowed``:
    shapes of the layers whose keys are read, without and with a window: of the target its last and its last but one, as
    the assistant reads no others; of the assistant all that it has.
    """

    architecture: str
    width: int
    n_rows: int
    vocabulary: str
    window: int
    full: tuple[KeyShape, ...]
    windowed: tuple[KeyShape, ...]


def find_shared_keys(model: Hyperparameters, tensors: Mapping[str, TensorInfo]) -> SharedKeys | None:
    """The file's side of a pair; None where its architecture is in none."""
    is_assistant = model.architecture in architectures.DRAFT_ONLY
    if model.n_layer_all < 2 or not (is_assistant or model.architecture in architectures.ASSISTED):
        return None
    embeddings = tensors.get("token_embd.weight")
    windowed = model.windowed_layers
    layers = range(model.n_layer_all) if is_assistant else (model.n_layer_all - 1,)
    before = layers if is_assistant else (model.n_layer_all - 2,)
    return SharedKeys(
        architecture=model.architecture,
        width=model.number("embedding_length_out") if is_assistant else model.n_embd,
        n_rows=embeddings.shape[-1] if embeddings and embeddings.shape else 0,
        vocabulary=_fingerprint(model.metadata.get("tokenizer.ggml.tokens")),
        window=model.number("attention.sliding_window"),
        full=_shapes(model, [layer for layer in layers if not windowed[layer]]),
        windowed=_shapes(model, [layer for layer in before if windowed[layer]]),
    )


def find_mismatch(target: SharedKeys, assistant: SharedKeys) -> str:
    """In what an assistant does not fit a target, as the end of a sentence about the assistant; empty when it does."""
    if architectures.ASSISTANT_OF.get(assistant.architecture) != target.architecture:
        return f"is an assistant ({assistant.architecture}), not of {target.architecture} models"
    if assistant.width != target.width:
        return f"reads hidden rows of {assistant.width} numbers, and this model's have {target.width}"
    if assistant.n_rows != target.n_rows:
        return f"has a vocabulary of {assistant.n_rows:,} tokens, and this model has {target.n_rows:,}"
    if assistant.vocabulary and assistant.vocabulary != target.vocabulary:
        return "has another vocabulary than this model: the same numbers stand for other tokens"
    for kind, needed, there in (
        ("without a window", assistant.full, target.full),
        ("with a sliding window", assistant.windowed, target.windowed),
    ):
        if needed and not there:
            return f"reads keys {kind}, and this model has none in the layer where they are looked for"
        if any(shape != there[0] for shape in needed):
            other = next(shape for shape in needed if shape != there[0])
            return f"reads keys {kind} as {_words(other)}, and this model keeps {_words(there[0])}"
    if assistant.windowed and assistant.window != target.window:
        return f"has a sliding window of {assistant.window} tokens, and this model one of {target.window}"
    return ""


def _shapes(model: Hyperparameters, layers: list[int]) -> tuple[KeyShape, ...]:
    return tuple(dict.fromkeys(_shape(model, layer) for layer in layers))


def _shape(model: Hyperparameters, layer: int) -> KeyShape:
    of_window = model.windowed_layers[layer]
    suffix = "_swa" if of_window else ""
    # The last layers may use the keys of earlier ones again.
    n_own = model.n_layer_all - (0 if model.n_layer == 0 else model.number("attention.shared_kv_layers"))
    source = layer if layer < n_own else n_own - (2 if of_window else 1)
    default = model.n_embd // model.heads[layer] if model.heads[layer] else 0
    return (
        model.kv_heads[source],
        model.number(f"attention.key_length{suffix}", default),
        model.number(f"attention.value_length{suffix}", default),
    )


def _words(shape: KeyShape) -> str:
    heads, key, value = shape
    size = f"{key}" if key == value else f"{key} and {value}"
    return f"{heads} head{'' if heads == 1 else 's'} of {size}"


def _fingerprint(tokens: object) -> str:
    if not isinstance(tokens, GgufArray) or tokens.type_name != "str":
        return ""
    digest = hashlib.blake2b(digest_size=16)
    for text in tokens.raw_strings():
        digest.update(len(text).to_bytes(8, "little"))
        digest.update(text)
    return digest.hexdigest()
