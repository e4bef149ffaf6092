"""What training minimises: next-token loss of the trunk and of the unrolled MTP head."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from model import TinyMTP
from torch import Tensor
from torch.nn import functional

STEP_WEIGHTS = (1.0, 0.6, 0.4)
"""Weight of MTP steps 1, 2, 3."""


@dataclass
class Losses:
    """Scalars: the trunk's cross-entropy, and three figures for each MTP step.

    ``hard``: loss against the text. ``soft``: loss against the trunk's own distribution. ``agreement``: share of
    positions where both have the same favourite.
    """

    trunk: Tensor
    hard: list[Tensor]
    soft: list[Tensor]
    agreement: list[Tensor]

    def total(self, mtp_weight: float) -> Tensor:
        """The trunk's loss + mtp_weight * the weighted sum over MTP steps of (hard + soft) / 2.

        A draft token is accepted when it is the trunk's choice, and MTP slot p and trunk slot p predict the same token,
        so the trunk's distribution is a free and better target than the text.
        """
        steps = zip(STEP_WEIGHTS, self.hard, self.soft, strict=False)
        return self.trunk + mtp_weight * torch.stack([w * (0.5 * h + 0.5 * s) for w, h, s in steps]).sum()


def losses(model: TinyMTP, ids: Tensor, steps: int, stride: int) -> Losses:
    """Losses of token ids (B, T + 1).

    MTP losses take every ``stride``-th position (the LM head is a third of the cost), from the first on that has the
    inputs that the step wants.
    """
    x, y = ids[:, :-1], ids[:, 1:]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h, emb = model.trunk(x)
        logits = model.head(h).float()
        outs = model.mtp(h, emb, steps)
    result = Losses(functional.cross_entropy(logits.flatten(0, 1), y.flatten()), [], [], [])
    for step, out in enumerate(outs):
        places = slice(steps + step % stride, None, stride)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            guess = model.head(out[:, places]).float()
        log_p = guess.log_softmax(-1)
        target = logits[:, places].detach()
        result.hard.append(-log_p.gather(-1, y[:, places, None]).mean())
        result.soft.append(-(target.softmax(-1) * log_p).sum(-1).mean())
        result.agreement.append((guess.argmax(-1) == target.argmax(-1)).float().mean())
    return result
