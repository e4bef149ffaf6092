"""Typed look-ups in a model's metadata, with libllama's defaults, and what each layer is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from draftscope.engine import architectures
from draftscope.engine.gguf import GgufFile
from draftscope.engine.gguf_values import BROKEN_HINT, GgufArray, MetadataValue, bad_file, quoted

MAX_LAYERS = 512
"""libllama's fixed limit; more end the process."""


class Hyperparameters:
    """The metadata of one model. Keys are given without the architecture's prefix.

    Raises (every look-up):
        EngineError: code BAD_FILE, when a value is of a type or size that libllama would refuse.
    """

    def __init__(self, file: GgufFile) -> None:
        self.path: Path = file.path
        self.metadata: Mapping[str, MetadataValue] = file.metadata
        self.architecture = self.text("general.architecture")
        self.n_layer_all = self.number("block_count")
        self.n_layer_nextn = self.number("nextn_predict_layers")
        if self.n_layer_all > MAX_LAYERS or self.n_layer_nextn > self.n_layer_all:
            what = f"claims {self.n_layer_all} layers, {self.n_layer_nextn} of them for MTP, which is impossible"
            raise bad_file(self.path, what, BROKEN_HINT)
        self.n_layer = self.n_layer_all - self.n_layer_nextn
        self.n_embd = self.number("embedding_length")
        self.heads = self.per_layer("attention.head_count", 0)
        self.kv_heads = self.per_layer("attention.head_count_kv", self.heads)

    def text(self, key: str) -> str:
        """A text by its full key; empty when it is not there."""
        value = self.metadata.get(key, "")
        if not isinstance(value, str):
            raise self._wrong_type(key)
        return value

    def has(self, key: str) -> bool:
        """Whether the architecture's key is there."""
        return self._full(key) in self.metadata

    def number(self, key: str, default: int = 0) -> int:
        """A count below 2^32."""
        full = self._full(key)
        value = self.metadata.get(full, default)
        if type(value) is not int or not 0 <= value < 1 << 32:
            raise self._wrong_type(full)
        return value

    def per_layer(self, key: str, default: int | Sequence[int]) -> tuple[int, ...]:
        """A count for each layer, MTP layers included; one value in the file stands for all layers."""
        full = self._full(key)
        value = self.metadata.get(full)
        if value is None:
            return (default,) * self.n_layer_all if isinstance(default, int) else tuple(default)
        if not isinstance(value, GgufArray):
            return (self.number(key),) * self.n_layer_all
        if len(value) != self.n_layer_all:
            raise bad_file(
                self.path, f"has {len(value)} values for its {self.n_layer_all} layers in {quoted(full)}", BROKEN_HINT
            )
        if value.type_name in ("str", "f32", "f64"):
            raise self._wrong_type(full)
        return tuple(int(item) for item in value)

    @property
    def recurrent_layers(self) -> tuple[bool, ...]:
        """Which layers keep a recurrent state; one entry a layer, MTP layers included."""
        name, n = self.architecture, self.n_layer_all
        if name in architectures.RECURRENT or name == "falcon-h1":
            return (True,) * n
        if name in architectures.RECURRENT_BY_INTERVAL:
            if self.has("attention.recurrent_layers"):
                return tuple(bool(flag) for flag in self.per_layer("attention.recurrent_layers", 0))
            interval = self.number("full_attention_interval", architectures.RECURRENT_BY_INTERVAL[name])
            if interval == 0:
                raise bad_file(self.path, "says that every 0th layer is full attention", BROKEN_HINT)
            return tuple(i < self.n_layer and (i + 1) % interval != 0 for i in range(n))
        if name in architectures.HYBRID:
            ffn = self.per_layer("feed_forward_length", 0)
            needs_no_ffn = name in ("nemotron_h", "nemotron_h_moe")
            return tuple(
                i < self.n_layer and self.kv_heads[i] == 0 and (ffn[i] == 0 or not needs_no_ffn) for i in range(n)
            )
        return (False,) * n

    @property
    def windowed_layers(self) -> tuple[bool, ...]:
        """Which layers attend to a sliding window, where the file lists them; else none is known to."""
        value = self.metadata.get(self._full("attention.sliding_window_pattern"))
        if not isinstance(value, GgufArray):
            return (False,) * self.n_layer_all
        flags = [bool(flag) for flag in self.per_layer("attention.sliding_window_pattern", 0)]
        return tuple(flags)

    def _full(self, key: str) -> str:
        return f"{self.architecture}.{key}"

    def _wrong_type(self, key: str) -> Exception:
        return bad_file(self.path, f"has a value of the wrong type or size in {quoted(key)}", BROKEN_HINT)
