"""Builds the tokenizer and the token streams for train.py.

    python prepare.py --stdlib LIB --kjv kjv.txt --docs DOCS/_sources --out data

Writes tokenizer.json, DOMAIN.{train,val}.npy (uint16) and mix.json. The same input gives the same output.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np
from sources import bible, chats, manual, python_sources
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MIX = {"code": 0.50, "kjv": 0.20, "docs": 0.15, "chat": 0.15}
"""Share of each domain in training."""

_SAMPLE_CHARACTERS = 8_000_000
_HELD_OUT = 50
# How llama.cpp's pre-tokenizer "qwen35" splits text.
_PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def train_tokenizer(domains: dict[str, list[str]], n_vocab: int) -> Tokenizer:
    """A byte-level BPE trained on 8 million characters in the mix of the training."""
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(_PIECES), "isolated")
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, to_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    make_trainer: Any = trainers.BpeTrainer
    trainer = make_trainer(
        vocab_size=n_vocab,
        special_tokens=SPECIAL,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    sample: list[str] = []
    for name, share in MIX.items():
        n = 0
        for text in domains[name] * 4:
            sample.append(text if name != "chat" else re.sub(r"<\|\w+\|>", "", text))
            n += len(text)
            if n > share * _SAMPLE_CHARACTERS:
                break
    tokenizer.train_from_iterator(sample, trainer)
    if tokenizer.get_vocab_size() != n_vocab:
        raise SystemExit(
            f"The texts gave only {tokenizer.get_vocab_size()} of {n_vocab} tokens: there are too few of them."
        )
    return tokenizer


def write_stream(tokenizer: Tokenizer, name: str, texts: list[str], folder: Path) -> None:
    """Write a domain's tokens; one document in 50 is held out."""
    end = tokenizer.token_to_id("<|endoftext|>")
    ids = [[*encoding.ids, end] for encoding in tokenizer.encode_batch(texts)]
    n_val = max(1, len(ids) // _HELD_OUT)
    for part, documents in (("val", ids[:n_val]), ("train", ids[n_val:])):
        tokens = np.array([token for document in documents for token in document], dtype=np.uint16)
        np.save(folder / f"{name}.{part}.npy", tokens)
        print(f"{name:5} {part:5} {len(documents):6} documents {len(tokens):9} tokens")


def main() -> None:
    """Read the sources and write everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stdlib", type=Path, default=Path(sysconfig.get_path("stdlib")), help="Lib of a CPython")
    parser.add_argument("--kjv", type=Path, required=True, help="output of: bible -f 'Gen1:1-Rev22:21'")
    parser.add_argument("--docs", type=Path, required=True, help="html/_sources of Debian's python3.X-doc")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--vocab", type=int, default=3072)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    rng = random.Random(a.seed)
    a.out.mkdir(parents=True, exist_ok=True)
    code = python_sources(a.stdlib)
    chapters, verses = bible(a.kjv)
    domains = {"code": code, "kjv": chapters, "docs": manual(a.docs), "chat": chats(code, verses, rng)}
    for texts in domains.values():
        rng.shuffle(texts)
    tokenizer = train_tokenizer(domains, a.vocab)
    tokenizer.save(str(a.out / "tokenizer.json"))
    for name, texts in domains.items():
        write_stream(tokenizer, name, texts, a.out)
    (a.out / "mix.json").write_text(json.dumps(MIX))


if __name__ == "__main__":
    main()
