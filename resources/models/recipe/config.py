"""Sizes of the model. The names follow the keys of the GGUF file where it has one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Config:
    """Sizes; the defaults are those of the bundled model.

    ``n_layer`` counts trunk blocks; ``n_nextn`` MTP blocks come on top (llama.cpp allows exactly one for this
    architecture). ``n_rot``: rotated dimensions of a head. ``d_state``: width of a head of the recurrent layers.
    ``n_ctx``: the context length written to the file.
    """

    n_vocab: int = 3072
    n_embd: int = 256
    n_layer: int = 8
    full_attention_interval: int = 4
    n_ff: int = 512
    n_head: int = 4
    n_head_kv: int = 2
    head_dim: int = 64
    n_rot: int = 32
    rope_base: float = 10000.0
    n_k_heads: int = 2
    n_v_heads: int = 4
    d_state: int = 64
    d_conv: int = 4
    n_nextn: int = 1
    eps: float = 1e-6
    n_ctx: int = 512

    @property
    def key_dim(self) -> int:
        """Width of all keys of a recurrent layer."""
        return self.n_k_heads * self.d_state

    @property
    def value_dim(self) -> int:
        """Width of all values of a recurrent layer (``ssm.inner_size``)."""
        return self.n_v_heads * self.d_state

    @property
    def conv_dim(self) -> int:
        """Channels of a recurrent layer's convolution."""
        return 2 * self.key_dim + self.value_dim

    def is_recurrent(self, layer: int) -> bool:
        """Whether a trunk block is recurrent; the MTP block never is."""
        return layer < self.n_layer and (layer + 1) % self.full_attention_interval != 0

    def rope_sections(self) -> list[int]:
        """Sections of the interleaved M-RoPE.

        They must cover n_rot/2 pairs, pair i belonging to section i % 3: llama.cpp turns pairs left over by a fourth
        position, which is always 0 for text.
        """
        n = self.n_rot // 2
        return [len(range(start, n, 3)) for start in range(3)] + [0]
