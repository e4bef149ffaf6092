"""The bundled model in PyTorch: a tiny hybrid language model with an MTP head.

The forward pass computes what llama.cpp computes for architecture ``qwen35``:

* trunk: n_layer blocks; every ``full_attention_interval``-th one is full attention, the others are gated delta nets;
* hidden row: the trunk's state after the last norm; input of the LM head and of the MTP block;
* MTP: one full-attention block. At position p it gets (hidden row of p - 1, embedding of x[p]) and predicts x[p + 1].
  Its own normed output takes the hidden row's place when it drafts further.

Parameters are kept as the GGUF file has them, except ``A_log`` (the file has ``ssm_a = -exp(A_log)``).

    python model.py        checks the fast forms against the slow ones (a few seconds)
"""

from __future__ import annotations

import math

import torch
from config import Config
from delta_net import GatedDeltaNet
from layers import FFN, FullAttention, RMSNorm, linear
from torch import Tensor, nn
from torch.nn import functional


class Block(nn.Module):
    """One block of the trunk, recurrent or attention."""

    def __init__(self, c: Config, *, is_recurrent: bool) -> None:
        super().__init__()
        self.attn_norm = RMSNorm(c.n_embd, c.eps)
        self.attn = GatedDeltaNet(c) if is_recurrent else FullAttention(c)
        self.post_norm = RMSNorm(c.n_embd, c.eps)
        self.ffn = FFN(c)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, n_embd) -> the same."""
        x = x + self.attn(self.attn_norm(x))
        out: Tensor = x + self.ffn(self.post_norm(x))
        return out


class MTP(nn.Module):
    """The MTP head: one attention block over (embedding, hidden row of the position before)."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.c = c
        self.enorm, self.hnorm = RMSNorm(c.n_embd, c.eps), RMSNorm(c.n_embd, c.eps)
        self.eh_proj = linear(2 * c.n_embd, c.n_embd)  # input order: embedding, hidden row
        self.block = Block(c, is_recurrent=False)
        self.head_norm = RMSNorm(c.n_embd, c.eps)  # nextn.shared_head_norm

    def forward(self, h: Tensor, emb: Tensor, steps: int = 1) -> list[Tensor]:
        """Draft steps at every position at once.

        Step 1 pairs (h[p - 1], x[p]); step s pairs (output of step s - 1 at p - 1, x[p]), as the s-th draft token of
        llama.cpp does. Its attention sees what the KV cache holds then: step-1 keys up to p - (s - 1), and the keys of
        steps 2 to s on the last s - 1 positions.

        Args:
            h: (B, T, n_embd) hidden rows of the trunk.
            emb: (B, T, n_embd) embeddings.
            steps: how many.

        Returns:
            One (B, T, n_embd) for each step: what slot p holds predicts x[p + 1].
        """
        block, outs = self.block, []
        attention = block.attn
        assert isinstance(attention, FullAttention)
        keys: list[Tensor] = []
        values: list[Tensor] = []
        for step in range(1, steps + 1):
            before = functional.pad(h, (0, 0, 1, 0))[:, :-1]  # the row of position -1 is zeros
            x = self.eh_proj(torch.cat([self.enorm(emb), self.hnorm(before)], -1))
            q, k, v, gate = attention.project(block.attn_norm(x))
            keys.append(k)
            values.append(v)
            if step == 1:
                o = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            else:
                o = unrolled_attention(q, keys, values)
            x = x + attention.finish(o, gate)
            h = self.head_norm(x + block.ffn(block.post_norm(x)))
            outs.append(h)
        return outs


def unrolled_attention(q: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """Attention of draft step s = len(keys), see ``MTP.forward``. All tensors (B, H, T, d)."""
    step, n_tokens, scale = len(keys), q.shape[2], q.shape[-1] ** -0.5
    mask = torch.ones(n_tokens, n_tokens, dtype=torch.bool).tril(-(step - 1))
    scores = [(q @ keys[0].transpose(-1, -2) * scale).masked_fill(~mask, -1e30)]
    shifted = []
    for j in range(2, step + 1):
        n = step - j  # the key of step j sits n positions back
        kj, vj = (functional.pad(t, (0, 0, n, 0))[:, :, :n_tokens] for t in (keys[j - 1], values[j - 1]))
        scores.append((q * kj).sum(-1, keepdim=True) * scale)
        shifted.append(vj)
    weights = torch.cat(scores, -1).softmax(-1)
    o = weights[..., :n_tokens] @ values[0]
    for i, vj in enumerate(shifted):
        o = o + weights[..., n_tokens + i, None] * vj
    return o


class TinyMTP(nn.Module):
    """The whole model. The embedding is the LM head, too."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.c = c
        self.embd = nn.Embedding(c.n_vocab, c.n_embd)
        self.layers = nn.ModuleList(Block(c, is_recurrent=c.is_recurrent(i)) for i in range(c.n_layer))
        self.out_norm = RMSNorm(c.n_embd, c.eps)
        self.mtp = MTP(c)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights."""
        for name, p in self.named_parameters():
            if p.ndim == 2 and not name.endswith("attn.conv"):
                std = 0.02 if name.startswith("embd") else 0.6 / math.sqrt(p.shape[1])
                if name.endswith(("attn.out.weight", "ffn.down.weight")):
                    std /= math.sqrt(2 * self.c.n_layer)  # keeps the residual stream small
                nn.init.normal_(p, std=std)

    def trunk(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden rows and embeddings, both (B, T, n_embd), of token ids (B, T)."""
        emb = self.embd(ids)
        x = emb
        for layer in self.layers:
            x = layer(x)
        return self.out_norm(x), emb

    def head(self, h: Tensor) -> Tensor:
        """Logits (B, T, n_vocab) of hidden rows."""
        return functional.linear(h, self.embd.weight)

    def forward(self, ids: Tensor) -> Tensor:
        """The trunk's logits (B, T, n_vocab)."""
        return self.head(self.trunk(ids)[0])

    def use_stepwise(self, is_on: bool) -> None:
        """Use the slow one-token-at-a-time delta rule."""
        for module in self.modules():
            if isinstance(module, GatedDeltaNet):
                module.is_stepwise = is_on


def count(model: nn.Module) -> int:
    """Number of parameters."""
    return sum(p.numel() for p in model.parameters())
