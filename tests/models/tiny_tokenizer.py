"""A byte-level BPE vocabulary of 288 tokens, and which token each of them leads to in the made models."""

from __future__ import annotations

from dataclasses import dataclass

import gguf
import numpy as np
from numpy.typing import NDArray

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
N_VOCAB = 288

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)

_MERGES = (
    "Ġ Ġ|Ġ t|h e|i n|e r|o n|r e|a t|Ġ a|Ġ s|e n|o r|i s|Ġt he|ĠĠ ĠĠ|Ċ ĠĠĠĠ|s e|l e|n d|o u|Ġ =|d e|Ġ f|"
    "e lf|s elf|in g|i t|a l|Ġ in"
)
_CYCLES = ("abcdefghijklmnopqrstuvwxyzĠ", "ABCDEFGHIJKLMNOPQRSTUVWXYZ_", "0123456789+-*/=Ċ", "()[]{}<>.,;:!?")


@dataclass(frozen=True, slots=True)
class TinyTokenizer:
    """Tokens in the order of their ids, the special ones first, and the merges."""

    tokens: tuple[str, ...]
    merges: tuple[str, ...]

    def write(self, writer: gguf.GGUFWriter) -> None:
        """Add the vocabulary and the chat template to a file."""
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("qwen35")
        writer.add_token_list(list(self.tokens))
        kinds = [gguf.TokenType.CONTROL if token in SPECIAL else gguf.TokenType.NORMAL for token in self.tokens]
        writer.add_token_types(kinds)
        writer.add_token_merges(list(self.merges))
        writer.add_eos_token_id(SPECIAL.index("<|im_end|>"))
        writer.add_pad_token_id(SPECIAL.index("<|endoftext|>"))
        writer.add_add_bos_token(False)
        writer.add_chat_template(CHAT_TEMPLATE)

    def successors(self) -> NDArray[np.int64]:
        """The favourite next token of every token, int64 (N_VOCAB,).

        Readable cycles over printable ASCII; every other token leads into a cycle and none leads out, so that special
        tokens and lone bytes are not generated.
        """
        ids = {token: number for number, token in enumerate(self.tokens)}
        following = np.full(len(self.tokens), -1, dtype=np.int64)
        for cycle in _CYCLES:
            members = [ids[character] for character in cycle]
            following[members] = members[1:] + members[:1]
        inside, outside = np.flatnonzero(following >= 0), np.flatnonzero(following < 0)
        following[outside] = inside[(outside * 7) % len(inside)]
        return following


def make_tokenizer() -> TinyTokenizer:
    """3 special tokens, 256 bytes, the merges above, and merges of bytes that hardly occur to fill up."""
    letters = _byte_letters()
    tokens = [*SPECIAL, *(letters[byte] for byte in range(256))]
    merges: list[str] = []

    def merge(first: str, second: str) -> None:
        if first in tokens and second in tokens and first + second not in tokens:
            merges.append(f"{first} {second}")
            tokens.append(first + second)

    for pair in _MERGES.split("|"):
        merge(*pair.split(" "))
    for number in range(256):
        if len(tokens) < N_VOCAB:
            merge(letters[number], letters[(number * 7) % 256])
    return TinyTokenizer(tuple(tokens), tuple(merges))


def _byte_letters() -> dict[int, str]:
    """The printable stand-ins that byte-level BPE has for the 256 bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}
