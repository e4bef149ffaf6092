"""Trains the model on a CPU with the data of prepare.py.

    python train.py --data data --out ckpt --minutes 50 --procs 2 --compile --warmup 50

Data-parallel: single-threaded processes whose gradients are averaged once a step. On a small CPU that is faster than
threads inside the operations, and suffers less when the machine is busy. The learning rate falls linearly to zero over
the time given, so the run ends on time. Matrices are trained with Muon, the rest with AdamW.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing
from config import Config
from model import TinyMTP, count
from muon import Muon
from objective import losses
from stream import Stream
from torch import Tensor


class Trainer:
    """One process of the training."""

    def __init__(self, rank: int, a: argparse.Namespace) -> None:
        self.rank, self.a = rank, a
        self.model = TinyMTP(Config(**json.loads(a.config)))
        self.params = list(self.model.parameters())
        named = self.model.named_parameters()
        matrices = [p for n, p in named if p.ndim == 2 and min(p.shape) >= 64 and n != "embd.weight"]
        with_muon = {id(p) for p in matrices} if a.muon_lr else set()
        rest = [p for p in self.params if id(p) not in with_muon]
        large = [p for p in rest if p.ndim == 2 and min(p.shape) >= 64]
        small = [p for p in rest if not (p.ndim == 2 and min(p.shape) >= 64)]
        groups = [{"params": large, "weight_decay": a.wd}, {"params": small, "weight_decay": 0.0}]
        self.adam = torch.optim.AdamW(groups, lr=a.lr, betas=(0.9, 0.95), eps=1e-8, fused=True)
        self.muon = Muon(matrices, rank, a.procs, wd=a.wd) if a.muon_lr else None
        self.train = Stream(a.data, "train", a.ctx, 1000 * a.seed + rank)
        self.val = Stream(a.data, "val", a.ctx, 7)
        self.objective: Any = torch.compile(self._objective) if a.compile else self._objective
        self.flat = torch.zeros(sum(p.numel() for p in self.params) + 1)  # gradients and the time, so ranks agree on it
        self.step, self.n_tokens = 0, 0
        self.figures: list[list[float]] = []

    def run(self) -> None:
        """Train until the time is up, then save ``final.pt``."""
        if self.a.compile:
            self._warm_up()
        self._say(f"parameters {count(self.model)} {self.model.c}")
        started = time.monotonic()
        next_val = next_save = 0.0
        while (done := self._one_step(started)) < 1:
            if self.rank == 0 and done >= next_val:
                next_val += 1 / self.a.n_val
                self._validate()
            if self.rank == 0 and done >= next_save:
                next_save += 1 / self.a.n_save
                self._save("last.pt")
        if self.rank == 0:
            self._save("final.pt")
            self._validate()
        dist.barrier()

    def _objective(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        result = losses(self.model, ids, self.a.mtp_steps, self.a.mtp_stride)
        hard, agreement = torch.stack(result.hard).detach(), torch.stack(result.agreement)
        return result.total(self.a.mtp_weight), result.trunk.detach(), hard, agreement

    def _warm_up(self) -> None:
        """Compile in process 0 first, which fills the cache for the others."""
        if self.rank != 0:
            dist.barrier()
        self.objective(self.train.batch(self.a.batch))[0].backward()
        if self.rank == 0:
            dist.barrier()
        dist.barrier()
        self.adam.zero_grad(set_to_none=False)

    def _one_step(self, started: float) -> float:
        """One update. Returns the share of the time that is used up."""
        loss, ce, hard, agreement = self.objective(self.train.batch(self.a.batch))
        loss.backward()
        gradients = [p.grad.flatten() for p in self.params if p.grad is not None]
        torch.cat(gradients, out=self.flat[:-1])
        self.flat[-1] = time.monotonic() - started
        if self.a.procs > 1:
            dist.all_reduce(self.flat)
            self.flat /= self.a.procs
        elapsed = float(self.flat[-1])
        done = elapsed / (60 * float(self.a.minutes))
        if done >= 1:
            return done
        norm = self._clip()
        self._update(min(1.0, (self.step + 1) / self.a.warmup) * (1.0 - done))
        self.step += 1
        self.n_tokens += self.a.batch * self.a.ctx * self.a.procs
        self.figures.append([ce.item(), norm, *hard.tolist(), *agreement.tolist()])
        if self.step % self.a.log_every == 0:
            self._report(elapsed)
        return done

    def _clip(self) -> float:
        """Put the averaged gradients back, at most ``clip`` long; returns their length before."""
        norm = float(self.flat[:-1].norm())
        self.flat[:-1] *= min(1.0, self.a.clip / (norm + 1e-6))
        at = 0
        for p in self.params:
            if p.grad is not None:
                p.grad.copy_(self.flat[at : at + p.numel()].view_as(p))
            at += p.numel()
        return norm

    def _update(self, share: float) -> None:
        for group in self.adam.param_groups:
            group["lr"] = self.a.lr * share
        self.adam.step()
        if self.muon:
            self.muon.step(self.a.muon_lr * share)
        self.adam.zero_grad(set_to_none=False)

    def _report(self, elapsed: float) -> None:
        mean = np.mean(self.figures, 0)
        k = self.a.mtp_steps
        self._say(
            f"step {self.step} {self.n_tokens / 1e6:.2f} Mtok {elapsed:.0f} s {self.n_tokens / elapsed:.0f} tok/s "
            f"ce {mean[0]:.3f} gradient {mean[1]:.2f} "
            f"mtp {np.round(mean[2 : 2 + k], 3)} agree {np.round(mean[2 + k :], 3)}"
        )
        self.figures = []

    @torch.no_grad()
    def _validate(self) -> None:
        """Loss and agreement by domain, on the same windows every time."""
        found = {}
        for domain in self.val.mix:
            self.val.restart(7)
            result = losses(self.model, self.val.batch(4, domain), self.a.mtp_steps, 1)
            found[domain] = [round(x.item(), 3) for x in (result.trunk, *result.agreement)]
        self._say(f"val step {self.step} [ce, agree 1..{self.a.mtp_steps}] " + json.dumps(found))

    def _save(self, name: str) -> None:
        state = {"config": vars(self.model.c), "model": self.model.state_dict(), "step": self.step}
        fresh = self.a.out / (name + ".tmp")
        torch.save(state, fresh)
        fresh.replace(self.a.out / name)

    def _say(self, text: str) -> None:
        if self.rank == 0:
            print(text, flush=True)
            with (self.a.out / "train.log").open("a", encoding="utf-8") as log:
                log.write(text + "\n")


def worker(rank: int, a: argparse.Namespace) -> None:
    """Body of one process."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    torch.manual_seed(a.seed)
    meeting = f"file://{(a.out / 'rendezvous').absolute()}"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=a.procs)
    Trainer(rank, a).run()
    dist.destroy_process_group()


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--minutes", type=float, default=50)
    parser.add_argument("--procs", type=int, default=os.cpu_count())
    parser.add_argument("--compile", action="store_true", help="torch.compile: needs g++, takes minutes, then 1.4x")
    parser.add_argument("--config", default="{}", help="JSON, fields of config.Config")
    parser.add_argument("--ctx", type=int, default=512)
    parser.add_argument("--batch", type=int, default=4, help="sequences a process and step")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--muon-lr", type=float, default=6e-3, help="0: AdamW for everything")
    parser.add_argument("--wd", type=float, default=0.1)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--warmup", type=int, default=50)
    parser.add_argument("--mtp-weight", type=float, default=0.3)
    parser.add_argument("--mtp-steps", type=int, default=3)
    parser.add_argument("--mtp-stride", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-every", type=int, default=20)
    parser.add_argument("--n-val", type=int, default=12, help="validations a run")
    parser.add_argument("--n-save", type=int, default=12, help="checkpoints a run")
    return parser.parse_args()


def main() -> None:
    """Start the processes."""
    a = options()
    a.out.mkdir(parents=True, exist_ok=True)
    (a.out / "rendezvous").unlink(missing_ok=True)
    processes: Any = torch.multiprocessing
    processes.spawn(worker, (a,), nprocs=a.procs)


if __name__ == "__main__":
    main()
