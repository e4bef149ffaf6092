"""Metadata and tensors of one made model, and the parts that models are put together from.

The weights are random but not without structure: the rows of the output matrix are the embeddings of the preceding
tokens, so the favourite next token is a fixed function of the current one (a -> b, b -> c, ...), disturbed by random
layers. The MTP block passes the embedding through with other random layers, so some, but not all, drafts are accepted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from tests.models.tiny_tokenizer import TinyTokenizer

Array = NDArray[np.float32]

_STAYS_F32_ALWAYS = ("conv1d", "ffn_gate_inp", "ssm_a", "ssm_b")  # narrow ones, and one that llama.cpp wants so
_STAYS_F32 = (*_STAYS_F32_ALWAYS, "ssm_")
_FILE_TYPES = {
    gguf.GGMLQuantizationType.F16: gguf.LlamaFileType.MOSTLY_F16,
    gguf.GGMLQuantizationType.Q8_0: gguf.LlamaFileType.MOSTLY_Q8_0,
}


class MadeModel:
    """One model being made. ``noise`` scales how much the layers disturb: 0, and every draft is accepted.

    ``kv`` has the keys without the architecture's prefix; ``tensors`` arrays float32 in numpy's order (rows first).
    """

    def __init__(self, architecture: str, tokenizer: TinyTokenizer, *, seed: int, noise: float) -> None:
        self.architecture = architecture
        self.tokenizer: TinyTokenizer | None = tokenizer
        self.noise = noise
        self.kv: dict[str, Any] = {}
        self.tensors: dict[str, Array] = {}
        self.head: Array = np.zeros((0, 0), dtype=np.float32)
        self._random = np.random.default_rng(seed)
        self._successors = tokenizer.successors()

    def random(self, *shape: int, gain: float = 1.0) -> Array:
        """A matrix (..., out, in) that maps inputs of unit variance to outputs of variance gain squared."""
        return self._random.standard_normal(shape, dtype=np.float32) * np.float32(gain / np.sqrt(shape[-1]))

    def ones(self, n: int, scale: float = 1.0) -> Array:
        """A vector of equal values."""
        return np.full(n, scale, dtype=np.float32)

    def add_vocabulary(self, width: int, *, with_output: bool = True) -> None:
        """Add the embeddings and the LM head that leads every token to its successor with a logit of about 8."""
        embeddings = self._random.standard_normal((len(self._successors), width), dtype=np.float32)
        self.head = np.zeros_like(embeddings)
        np.add.at(self.head, self._successors, embeddings)
        self.head *= 8 / width
        self.tensors["token_embd.weight"] = embeddings
        if with_output:
            self.tensors["output.weight"] = self.head
        self.tensors["output_norm.weight"] = self.ones(width)

    def add_norms(self, prefix: str, width: int, *names: str, scale: float = 1.0) -> None:
        """Add norm weights of a block."""
        for name in names:
            self.tensors[f"{prefix}{name}.weight"] = self.ones(width, scale)

    def add_attention(
        self, prefix: str, width: int, heads: tuple[int, int, int], *, is_gated: bool = False, gain: float = 1.0
    ) -> None:
        """Add attention of ``heads`` (query heads, key-value heads, width of a head), with norms of both."""
        n_head, n_kv, size = heads
        t = self.tensors
        t[prefix + "attn_q.weight"] = self.random(n_head * size * (2 if is_gated else 1), width)
        t[prefix + "attn_k.weight"] = self.random(n_kv * size, width)
        t[prefix + "attn_v.weight"] = self.random(n_kv * size, width)
        t[prefix + "attn_output.weight"] = self.random(width, n_head * size, gain=gain * self.noise)
        self.add_norms(prefix, size, "attn_q_norm", "attn_k_norm")

    def add_delta_net(
        self, prefix: str, width: int, heads: tuple[int, int, int], *, gain: float, joint_gates: bool
    ) -> None:
        """Add a gated delta net of ``heads`` (key heads, value heads, width of a head)."""
        n_key, n_value, size = heads
        inner = n_value * size
        channels = 2 * n_key * size + inner
        t = self.tensors
        t[prefix + "attn_qkv.weight"] = self.random(channels, width)
        t[prefix + "attn_gate.weight"] = self.random(inner, width)
        t[prefix + "ssm_conv1d.weight"] = self.random(channels, 4)
        t[prefix + "ssm_dt.bias"] = self.ones(n_value)
        t[prefix + "ssm_a"] = -np.linspace(0.05, 0.5, n_value).astype(np.float32)
        if joint_gates:
            t[prefix + "ssm_ba.weight"] = self.random(2 * n_value, width)
        else:
            t[prefix + "ssm_beta.weight"] = self.random(n_value, width)
            t[prefix + "ssm_alpha.weight"] = self.random(n_value, width)
        t[prefix + "ssm_norm.weight"] = self.ones(size)
        t[prefix + "ssm_out.weight"] = self.random(width, inner, gain=2 * gain * self.noise)

    def add_ffn(
        self, prefix: str, width: int, inner: int, *, suffix: str = "", gain: float = 1.0, n_expert: int = 0
    ) -> None:
        """Add a gated feed-forward part, once or for each expert."""
        experts = (n_expert,) if n_expert else ()
        self.tensors[f"{prefix}ffn_gate{suffix}.weight"] = self.random(*experts, inner, width)
        self.tensors[f"{prefix}ffn_up{suffix}.weight"] = self.random(*experts, inner, width)
        down = self.random(*experts, width, inner, gain=2 * gain * self.noise)
        self.tensors[f"{prefix}ffn_down{suffix}.weight"] = down

    def add_experts(
        self,
        prefix: str,
        width: int,
        *,
        gain: float,
        inner: int = 32,
        has_bias: bool = False,
        has_shared_gate: bool = False,
    ) -> None:
        """Add 4 experts and a shared one, each ``inner`` wide, and their router."""
        self.tensors[prefix + "ffn_gate_inp.weight"] = self.random(4, width)
        if has_bias:
            self.tensors[prefix + "exp_probs_b.bias"] = self.ones(4, 0.0)
        self.add_ffn(prefix, width, inner, suffix="_exps", gain=gain, n_expert=4)
        self.add_ffn(prefix, width, inner, suffix="_shexp", gain=gain)
        if has_shared_gate:
            self.tensors[prefix + "ffn_gate_inp_shexp.weight"] = self.random(1, width)[0]

    def add_nextn(self, prefix: str, width: int) -> None:
        """Add what makes a block an MTP head: it passes the embedding through and adds a bit of the hidden row."""
        through = np.eye(width, dtype=np.float32)
        hidden = self.random(width, width, gain=0.3 * self.noise)
        self.tensors[prefix + "nextn.eh_proj.weight"] = np.concatenate([through, hidden], 1)
        self.add_norms(prefix, width, "nextn.enorm", "nextn.hnorm", "nextn.shared_head_norm")

    def write(
        self,
        path: Path,
        *,
        endianess: gguf.GGUFEndian = gguf.GGUFEndian.LITTLE,
        kind: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F16,
    ) -> Path:
        """Write the file, matrices in F16 or Q8_0, and return its path."""
        writer = gguf.GGUFWriter(path, self.architecture, endianess=endianess)
        writer.add_type("model")
        writer.add_name(path.stem)
        writer.add_license("CC0-1.0")
        writer.add_file_type(_FILE_TYPES[kind])
        for key, value in self.kv.items():
            _add_value(writer, f"{self.architecture}.{key}", value)
        if self.tokenizer is None:
            writer.add_tokenizer_model("none")
        else:
            self.tokenizer.write(writer)
        kept = _STAYS_F32 if kind is gguf.GGMLQuantizationType.F16 else _STAYS_F32_ALWAYS
        for name, tensor in self.tensors.items():
            if tensor.ndim == 1 or any(part in name for part in kept):
                writer.add_tensor(name, np.ascontiguousarray(tensor, dtype=np.float32))
            else:
                writer.add_tensor(name, gguf.quants.quantize(np.ascontiguousarray(tensor), kind), raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path


def _add_value(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    match value:
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case _:
            writer.add_array(key, value)
