"""Layers that are not recurrent: norm, attention with output gate, feed-forward."""

from __future__ import annotations

import torch
from config import Config
from torch import Tensor, nn
from torch.nn import functional


class RMSNorm(nn.Module):
    """Root mean square norm; the weight is a plain factor, as in the GGUF file (HF files store it minus 1)."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Norm of the last axis, in float32."""
        return functional.rms_norm(x.float(), (x.shape[-1],), self.weight, self.eps)


def linear(n_in: int, n_out: int) -> nn.Linear:
    """A matrix without bias."""
    return nn.Linear(n_in, n_out, bias=False)


def rope(x: Tensor, c: Config) -> Tensor:
    """Rotate the first n_rot dimensions, first half with second half. x: (..., T, d).

    For text llama.cpp's interleaved M-RoPE comes down to this, since its three position streams are equal.
    """
    n_tokens, half = x.shape[-2], c.n_rot // 2
    frequency = c.rope_base ** (-torch.arange(half, dtype=torch.float32) / half)
    angle = torch.arange(n_tokens, dtype=torch.float32)[:, None] * frequency
    cos, sin = angle.cos(), angle.sin()
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    return torch.cat([a * cos - b * sin, a * sin + b * cos, rest], -1)


class FullAttention(nn.Module):
    """Attention with norms of queries and keys, partial RoPE, grouped heads and an output gate."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.c = c
        self.q = linear(c.n_embd, c.n_head * c.head_dim * 2)  # per head: query, then gate
        self.k = linear(c.n_embd, c.n_head_kv * c.head_dim)
        self.v = linear(c.n_embd, c.n_head_kv * c.head_dim)
        self.q_norm = RMSNorm(c.head_dim, c.eps)
        self.k_norm = RMSNorm(c.head_dim, c.eps)
        self.out = linear(c.n_head * c.head_dim, c.n_embd)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Rotated q and k, and v, all (B, H, T, d) with one key head a query head; and the gate (B, T, H * d)."""
        c, (n_batch, n_tokens, _) = self.c, x.shape
        both = self.q(x).view(n_batch, n_tokens, c.n_head, 2 * c.head_dim)
        q, gate = both[..., : c.head_dim], both[..., c.head_dim :]
        q = rope(self.q_norm(q).transpose(1, 2), c)
        k = self.k(x).view(n_batch, n_tokens, c.n_head_kv, c.head_dim)
        k = rope(self.k_norm(k).transpose(1, 2), c)
        v = self.v(x).float().view(n_batch, n_tokens, c.n_head_kv, c.head_dim).transpose(1, 2)
        repeats = c.n_head // c.n_head_kv
        k, v = k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1)
        return q, k, v, gate.reshape(n_batch, n_tokens, -1)

    def finish(self, o: Tensor, gate: Tensor) -> Tensor:
        """Gate and output matrix. o: (B, H, T, d)."""
        n_batch, n_head, n_tokens, width = o.shape
        gated = o.transpose(1, 2).reshape(n_batch, n_tokens, n_head * width) * torch.sigmoid(gate.float())
        out: Tensor = self.out(gated)
        return out

    def forward(self, x: Tensor) -> Tensor:
        """Causal attention. (B, T, n_embd) -> the same."""
        q, k, v, gate = self.project(x)
        return self.finish(functional.scaled_dot_product_attention(q, k, v, is_causal=True), gate)


class FFN(nn.Module):
    """Gated feed-forward layer."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.gate, self.up = linear(c.n_embd, c.n_ff), linear(c.n_embd, c.n_ff)
        self.down = linear(c.n_ff, c.n_embd)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, n_embd) -> the same."""
        out: Tensor = self.down(functional.silu(self.gate(x)) * self.up(x))
        return out
