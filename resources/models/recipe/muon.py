"""Muon: momentum whose updates are made orthogonal.

It needs far fewer tokens than AdamW, and tokens are what a CPU lacks.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn


def orthogonalise(g: Tensor, steps: int = 5) -> Tensor:
    """Roughly the nearest (semi-)orthogonal matrix, by a Newton-Schulz iteration."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    if g.shape[0] > g.shape[1]:
        x = x.T.contiguous()
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        m = x @ x.T
        x = a * x + (b * m + c * (m @ m)) @ x
    nearest: Tensor = x.T if g.shape[0] > g.shape[1] else x
    return nearest.float()


class Muon:
    """The optimiser. Its matrices are divided among the processes, which exchange the updates.

    Updates are scaled to the root mean square of an AdamW update, so one learning rate scale fits both.
    """

    def __init__(
        self, params: Iterable[nn.Parameter], rank: int, world: int, momentum: float = 0.95, wd: float = 0.1
    ) -> None:
        self.params, self.world, self.momentum, self.wd = list(params), world, momentum, wd
        self.buffers = {i: torch.zeros_like(p) for i, p in enumerate(self.params) if i % world == rank}
        self.flat = torch.zeros(sum(p.numel() for p in self.params))

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """Change the parameters by their gradients."""
        self.flat.zero_()
        at = 0
        for i, p in enumerate(self.params):
            if i in self.buffers and p.grad is not None:
                mean = self.buffers[i].lerp_(p.grad, 1 - self.momentum)
                update = orthogonalise(p.grad.lerp(mean, self.momentum)) * (0.2 * max(p.shape) ** 0.5)
                self.flat[at : at + p.numel()] = update.flatten()
            at += p.numel()
        if self.world > 1:
            dist.all_reduce(self.flat)
        at = 0
        for p in self.params:
            p.mul_(1 - lr * self.wd).add_(self.flat[at : at + p.numel()].view_as(p), alpha=-lr)
            at += p.numel()
