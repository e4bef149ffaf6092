"""Random windows of the token streams that prepare.py made."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from torch import Tensor


class Stream:
    """Windows from the domains in the proportions of mix.json. ``part`` is ``train`` or ``val``."""

    def __init__(self, folder: Path, part: str, n_tokens: int, seed: int) -> None:
        self.mix: dict[str, float] = json.loads((folder / "mix.json").read_text())
        self.data = {domain: np.load(folder / f"{domain}.{part}.npy") for domain in self.mix}
        self.n_tokens = n_tokens
        self.restart(seed)

    def restart(self, seed: int) -> None:
        """Draw the same windows again."""
        self.random = np.random.default_rng(seed)

    def batch(self, n: int, domain: str | None = None) -> Tensor:
        """Token ids int64 (n, n_tokens + 1), of one domain or mixed."""
        names, shares = list(self.mix), list(self.mix.values())
        picked = [domain or names[self.random.choice(len(names), p=shares)] for _ in range(n)]
        return torch.stack([self._window(name) for name in picked])

    def _window(self, domain: str) -> Tensor:
        tokens = self.data[domain]
        start = self.random.integers(0, max(1, len(tokens) - self.n_tokens - 1))
        return torch.from_numpy(tokens[start : start + self.n_tokens + 1].astype(np.int64))
