"""The gated delta rule and its layer: a recurrent layer as llama.cpp computes it.

Axes in this folder: B sequences, H heads, T tokens, d width of a head. All tensors are float32 unless autocast says
otherwise.
"""

from __future__ import annotations

import math

import torch
from config import Config
from layers import RMSNorm, linear
from torch import Tensor, nn
from torch.nn import functional


def gdn_recurrent(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> Tensor:
    """One token at a time, as ``ggml_gated_delta_net`` does it; the reference for the fast form.

    Args:
        q: (B, H, T, d), already scaled.
        k: (B, H, T, d).
        v: (B, H, T, d).
        g: (B, H, T), the logarithm of the decay.
        beta: (B, H, T).

    Returns:
        (B, H, T, d).
    """
    n_batch, n_head, n_tokens, width = v.shape
    state = torch.zeros(n_batch, n_head, width, width, dtype=v.dtype)
    out = []
    for t in range(n_tokens):
        state = state * g[:, :, t, None, None].exp()
        delta = (v[:, :, t] - torch.einsum("bhkv,bhk->bhv", state, k[:, :, t])) * beta[:, :, t, None]
        state = state + k[:, :, t, :, None] * delta[:, :, None, :]
        out.append(torch.einsum("bhkv,bhk->bhv", state, q[:, :, t]))
    return torch.stack(out, 2)


def gdn_chunked(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, chunk: int = 32) -> Tensor:
    """The same in chunks: inside a chunk all is matrix products (the WY form), only the state passes between chunks."""
    n_batch, n_head, n_tokens, width = v.shape
    pad = -n_tokens % chunk
    if pad:
        q, k, v = (functional.pad(x, (0, 0, 0, pad)) for x in (q, k, v))
        g, beta = (functional.pad(x, (0, pad)) for x in (g, beta))
    n = (n_tokens + pad) // chunk
    q, k, v = (x.reshape(n_batch, n_head, n, chunk, width) for x in (q, k, v))
    total = g.reshape(n_batch, n_head, n, chunk).cumsum(-1)  # log decay since the chunk's start
    scaled_k = k * beta.reshape(n_batch, n_head, n, chunk, 1)

    tri = torch.ones(chunk, chunk, dtype=torch.bool).tril()
    decay = (total[..., :, None] - total[..., None, :]).masked_fill(~tri, -1e30).exp()  # i >= j
    system = ((scaled_k @ k.transpose(-1, -2)) * decay).tril(-1)
    # Solve (I + system) [u | w] = [beta * v | exp(total) * beta * k].
    right = torch.cat([v * beta.reshape(n_batch, n_head, n, chunk, 1), scaled_k * total.exp()[..., None]], -1)
    solved = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    u, w = solved[..., :width], solved[..., width:]
    attention = (q @ k.transpose(-1, -2)) * decay  # decay is 0 above the diagonal
    q_start = q * total.exp()[..., None]
    k_end = k * (total[..., -1:] - total).exp()[..., None]
    decay_end = total[..., -1].exp()[..., None, None]

    state = torch.zeros(n_batch, n_head, width, width, dtype=v.dtype)
    out = []
    for c in range(n):
        v_new = u[:, :, c] - w[:, :, c] @ state
        out.append(q_start[:, :, c] @ state + attention[:, :, c] @ v_new)
        state = state * decay_end[:, :, c] + k_end[:, :, c].transpose(-1, -2) @ v_new
    return torch.stack(out, 2).reshape(n_batch, n_head, n * chunk, width)[:, :, :n_tokens]


class GatedDeltaNet(nn.Module):
    """A recurrent layer: short causal convolution, gated delta rule, output gate. (B, T, n_embd) -> the same."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.c = c
        self.qkv = linear(c.n_embd, c.conv_dim)  # attn_qkv: q, k, v
        self.gate = linear(c.n_embd, c.value_dim)  # attn_gate
        self.beta = linear(c.n_embd, c.n_v_heads)  # ssm_beta
        self.alpha = linear(c.n_embd, c.n_v_heads)  # ssm_alpha
        self.conv = nn.Parameter(torch.empty(c.conv_dim, c.d_conv))  # ssm_conv1d
        nn.init.uniform_(self.conv, -1 / math.sqrt(c.d_conv), 1 / math.sqrt(c.d_conv))
        dt = torch.exp(torch.linspace(math.log(1e-3), math.log(1e-1), c.n_v_heads))
        self.dt_bias = nn.Parameter(dt + torch.log(-torch.expm1(-dt)))  # the inverse of softplus
        self.A_log = nn.Parameter(torch.linspace(1.0, 8.0, c.n_v_heads).log())
        self.norm = RMSNorm(c.d_state, c.eps)  # ssm_norm
        self.out = linear(c.value_dim, c.n_embd)  # ssm_out
        self.is_stepwise = False  # True: the slow reference

    def forward(self, x: Tensor) -> Tensor:
        """One pass from a zero state."""
        c, (n_batch, n_tokens, _) = self.c, x.shape
        q, k, v = self._convolved(x)
        beta = torch.sigmoid(self.beta(x).float()).transpose(1, 2)
        g = (-self.A_log.exp() * functional.softplus(self.alpha(x).float() + self.dt_bias)).transpose(1, 2)
        with torch.autocast("cpu", enabled=False):
            o = (gdn_recurrent if self.is_stepwise else gdn_chunked)(q, k, v, g, beta)
        o = self.norm(o.transpose(1, 2))  # (B, T, H, d)
        o = o * functional.silu(self.gate(x).float()).view(n_batch, n_tokens, c.n_v_heads, c.d_state)
        out: Tensor = self.out(o.reshape(n_batch, n_tokens, c.value_dim))
        return out

    def _convolved(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v (B, H, T, d) after the convolution; q and k of length 1, q scaled, all for the value heads."""
        c, (n_batch, n_tokens, _) = self.c, x.shape
        # A causal depthwise convolution as a sum of shifted products: on a CPU faster than conv1d with groups.
        padded = functional.pad(self.qkv(x).float(), (0, 0, c.d_conv - 1, 0))
        u = functional.silu(
            torch.stack([padded[:, i : i + n_tokens] * self.conv[:, i] for i in range(c.d_conv)]).sum(0)
        )
        q, k, v = torch.split(u, [c.key_dim, c.key_dim, c.value_dim], -1)
        q = q.view(n_batch, n_tokens, c.n_k_heads, c.d_state).transpose(1, 2)
        k = k.view(n_batch, n_tokens, c.n_k_heads, c.d_state).transpose(1, 2)
        v = v.view(n_batch, n_tokens, c.n_v_heads, c.d_state).transpose(1, 2)
        q = q * torch.rsqrt(q.pow(2).sum(-1, keepdim=True) + c.eps) * c.d_state**-0.5
        k = k * torch.rsqrt(k.pow(2).sum(-1, keepdim=True) + c.eps)
        repeats = c.n_v_heads // c.n_k_heads
        return q.repeat(1, repeats, 1, 1), k.repeat(1, repeats, 1, 1), v  # tiled: value head i uses key head i % n
