"""Compares a GGUF file in llama.cpp with the PyTorch checkpoint that it was made from.

    python verify.py --gguf draftscope-demo-Q8_0.gguf --ckpt ckpt/final.pt [--text FILE ...]

Checks that the tokenizers are the same, the logits of the trunk, the logits of the MTP head (step 1 at every position,
steps 2 and 3 at the end, driven as an engine drives them), and that the recurrent state can go back exactly. Ends with
code 1 when a bound is exceeded.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

import numpy as np
import torch
from config import Config
from llama_runner import LlamaRunner, Rows
from model import TinyMTP
from tokenizers import Tokenizer

PROMPTS = (
    "import os\nimport sys\n\n\ndef main(argv=None):\n    parser = argparse.ArgumentParser(description=__doc__)\n"
    "    parser.add_argument('-v', '--verbose', action='store_true')\n    args = parser",
    "Genesis 1\n\nIn the beginning God created the heaven and the earth.\nAnd the earth was without form, and void; "
    "and darkness was upon the face of the deep. And the Spirit of God moved upon",
    "<|im_start|>user\nWrite a Python function add that does this: add two numbers.<|im_end|>\n"
    "<|im_start|>assistant\n```python\ndef add(",
)
MAX_KL = 2e-3
"""Of a trained model: Q8_0 rounds (1.2e-3 was measured), F16 stays below 1e-5. One trained for a minute exceeds it."""

MAX_ROLLBACK_DIFFERENCE = 1e-2

_STRINGS = (
    "", " ", "\n", "Hello world", "def f(x):\n    return x**2\n", "a\n\n\n  b\t\tc  \n", "don't I'LL we've",
    "naïve café 你好 мир 😀 e\u0301 ½ \u00a0x", "1234567890 3.14 0xFF", "<|im_start|>user\nhi<|im_end|>\n",
    "x<|endoftext|>y", "  leading", "trailing  ", "\r\n\r\n a \r b", "___init___(self, *args, **kwargs)->None:",
)  # fmt: skip


class Verification:
    """One file against one checkpoint; ``worst_kl`` and ``worst_rollback`` are the figures that are bounded."""

    def __init__(self, path: str, checkpoint: Path, tokenizer: Path) -> None:
        self.path = path
        self.tokenizer = Tokenizer.from_file(str(tokenizer))
        state = torch.load(checkpoint, map_location="cpu", weights_only=True)
        self.model = TinyMTP(Config(**state["config"])).eval()
        self.model.load_state_dict(state["model"])
        self.runner = LlamaRunner(path, n_rs_seq=3)
        self.worst_kl = 0.0
        self.worst_rollback = 0.0

    def check_tokenizer(self, files: list[Path]) -> int:
        """Tokenize many strings both ways; returns how many differ."""
        rng = random.Random(0)
        texts = [*_STRINGS]
        for file in files:
            text = file.read_text(encoding="utf-8")
            starts = [rng.randrange(max(1, len(text) - 200)) for _ in range(400)]
            texts += [text[start : start + rng.randrange(1, 200)] for start in starts]
        letters = [
            chr(c) for c in (*range(32, 127), *range(0xA0, 0x250), *range(0x400, 0x460), 0x4E00, 0x1F600, 9, 10, 13)
        ]
        texts += ["".join(rng.choice(letters) for _ in range(rng.randrange(1, 60))) for _ in range(1000)]
        n_bad = sum(self.runner.tokenize(text) != self.tokenizer.encode(text).ids for text in texts)
        print(f"tokenizer: {len(texts)} strings, {n_bad} differ")
        return n_bad

    def check_prompt(self, text: str) -> None:
        """Compare all logits of a prompt, and go back in its middle."""
        ids = self.tokenizer.encode(text).ids
        print(f"prompt of {len(ids)} tokens: {text[:40]!r}...")
        with torch.no_grad():
            h, emb = self.model.trunk(torch.tensor([ids]))
            want = self.model.head(h)[0].numpy()
            want_mtp = [self.model.head(out)[0].numpy() for out in self.model.mtp(h, emb, 3)]
        run = self.runner
        run.clear()
        logits, rows = run.trunk(ids)
        self._compare("trunk, one batch", logits, want)
        print(f"  hidden rows: max |d| {np.abs(rows - h[0].numpy()).max():.4f}")
        run.clear()
        single = np.concatenate([run.trunk(ids[i : i + 1], i)[0] for i in range(len(ids))])
        self._compare("trunk, token by token", single, want)
        before = np.concatenate([np.zeros_like(rows[:1]), rows[:-1]])
        self._compare("MTP step 1, all positions", run.mtp(ids, before)[0], want_mtp[0])
        self._check_drafting(ids, before, want_mtp)
        self._check_rollback(ids, single)

    def check_checkpoint(self) -> None:
        """The same way back with a saved state, in a context that cannot roll back."""
        ids = self.tokenizer.encode(PROMPTS[-1]).ids
        n = len(ids) - 8
        run = LlamaRunner(self.path, n_rs_seq=0)
        straight = np.concatenate([run.trunk(ids[i : i + 1], i)[0] for i in range(len(ids))])
        run.clear()
        run.trunk(ids[:n])
        saved = run.save_state()
        run.trunk([ids[n], 5, 6, 7], n)
        print(f"n_rs_seq 0: the tail can be dropped: {run.drop_tail(run.target, n + 1)}")
        run.restore_state(saved)
        run.drop_tail(run.target, n)  # the attention's part
        self._note_rollback(f"checkpoint of {len(saved)} bytes", run.trunk(ids[n:], n)[0] - straight[n:])

    def _check_drafting(self, ids: list[int], before: Rows, want: list[Rows]) -> None:
        start = len(ids) - 3
        self.runner.drop_tail(self.runner.draft, start)
        row = before[start]
        for step in range(3):
            place = start + step
            logits, rows = self.runner.mtp(ids[place : place + 1], row[None], place)
            self._compare(f"MTP step {step + 1}, drafted", logits, want[step][place][None])
            row = rows[0]

    def _check_rollback(self, ids: list[int], straight: Rows) -> None:
        run, n = self.runner, len(ids) - 8
        run.clear()
        run.trunk(ids[:n])
        run.trunk([ids[n], 5, 6, 7], n)  # a token and three wrong ones
        is_back = run.drop_tail(run.target, n + 1)
        self._note_rollback(f"rollback of 3 tokens ({is_back})", run.trunk(ids[n + 1 :], n + 1)[0] - straight[n + 1 :])

    def _note_rollback(self, what: str, difference: Rows) -> None:
        worst = float(np.abs(difference).max())
        self.worst_rollback = max(self.worst_rollback, worst)
        print(f"  {what}: max |d| to the straight run {worst:.1e}")

    def _compare(self, name: str, got: Rows, want: Rows) -> None:
        p, q = torch.tensor(want).log_softmax(-1), torch.tensor(got).log_softmax(-1)
        kl = float((p.exp() * (p - q)).sum(-1).max())
        same = float((got.argmax(-1) == want.argmax(-1)).mean())
        self.worst_kl = max(self.worst_kl, kl)
        print(f"  {name:26} max |d| {np.abs(got - want).max():.4f}  KL max {kl:.1e}  same favourite {same:.4f}")


def main() -> None:
    """Check everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gguf", required=True)
    parser.add_argument("--ckpt", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, default=Path(__file__).with_name("tokenizer.json"))
    parser.add_argument("--text", type=Path, nargs="*", default=[], help="files to take strings from")
    a = parser.parse_args()
    check = Verification(a.gguf, a.ckpt, a.tokenizer)
    n_bad = check.check_tokenizer(a.text)
    for prompt in PROMPTS:
        check.check_prompt(prompt)
    check.check_checkpoint()
    print(f"worst KL {check.worst_kl:.1e}, worst difference after going back {check.worst_rollback:.1e}")
    if n_bad or check.worst_kl > MAX_KL or check.worst_rollback > MAX_ROLLBACK_DIFFERENCE:
        sys.exit(1)


if __name__ == "__main__":
    main()
