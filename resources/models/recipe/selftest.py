"""Checks of the model's fast forms against slow ones that are plainly right. Run through ``python model.py``."""

from __future__ import annotations

import torch
from config import Config
from delta_net import gdn_chunked, gdn_recurrent
from model import TinyMTP, count
from torch.nn import functional


def check_all() -> None:
    """Run all checks; AssertionError when one fails."""
    torch.manual_seed(0)
    _check_delta_rule()
    model = TinyMTP(Config(n_vocab=300)).eval()
    ids = torch.randint(0, 300, (2, 70))
    with torch.no_grad():
        _check_trunk(model, ids)
        _check_unrolled_mtp(model, ids)
    print(f"parameters of the bundled model: {count(TinyMTP(Config()))}; all checks passed")


def _check_delta_rule() -> None:
    """Chunked equals stepwise, values and gradients, in float64."""
    n_batch, n_head, n_tokens, width = 2, 3, 77, 16
    q, k, v = (torch.randn(n_batch, n_head, n_tokens, width, dtype=torch.double) for _ in range(3))
    k = functional.normalize(k, dim=-1)
    g, beta = (torch.rand(n_batch, n_head, n_tokens, dtype=torch.double) for _ in range(2))
    inputs = (q, k, v, -g, beta)
    for x in inputs:
        x.requires_grad_()
    slow, fast = gdn_recurrent(*inputs), gdn_chunked(*inputs, chunk=16)
    weights = torch.randn_like(slow)
    slow_grads = torch.autograd.grad((slow * weights).sum(), inputs)
    fast_grads = torch.autograd.grad((fast * weights).sum(), inputs)
    worst = max((a - b).abs().max().item() for a, b in zip(slow_grads, fast_grads, strict=True))
    difference = (slow - fast).abs().max().item()
    print(f"delta rule, chunked against stepwise: {difference:.1e}, gradients {worst:.1e}")
    assert difference < 1e-10
    assert worst < 1e-9


def _check_trunk(model: TinyMTP, ids: torch.Tensor) -> None:
    """The whole trunk agrees in both forms, and no position sees a later one."""
    fast = model(ids)
    model.use_stepwise(True)
    slow = model(ids)
    difference = (fast - slow).abs().max().item()
    changed = ids.clone()
    changed[:, 40:] = 1
    leak = (model(changed)[:, :40] - slow[:, :40]).abs().max().item()
    model.use_stepwise(False)
    print(f"trunk, chunked against stepwise: {difference:.1e}; effect of later tokens on earlier logits: {leak:.1e}")
    assert difference < 1e-3
    assert leak < 1e-4


def _check_unrolled_mtp(model: TinyMTP, ids: torch.Tensor) -> None:
    """Drafting at all positions at once equals a replay of the KV cache for one position, steps 2 and 3."""
    h, emb = model.trunk(ids)
    outs = model.mtp(h, emb, 3)
    p = 33  # step 1 at p, then p + 1 and p + 2
    rows = torch.cat([torch.zeros_like(h[:, :1]), h[:, :p], outs[0][:, p : p + 1], outs[1][:, p + 1 : p + 2]], 1)
    replayed = model.mtp(functional.pad(rows[:, 1:], (0, 0, 0, 1)), emb[:, : p + 3], 1)[0]
    for step in (1, 2):
        difference = (replayed[:, p + step] - outs[step][:, p + step]).abs().max().item()
        print(f"MTP step {step + 1}, unrolled against replayed: {difference:.1e}")
        assert difference < 1e-3


if __name__ == "__main__":
    check_all()
