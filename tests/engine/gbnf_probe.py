"""Gives grammars to libllama alone: ``python -m tests.engine.gbnf_probe MODEL < grammars.json``.

In a process of its own, since a grammar that it cannot follow ends the process or never comes back. Prints a line a
grammar: ``+`` when libllama takes it and can say which tokens may come, ``-`` when it refuses it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import llama_cpp


def main(path: Path) -> None:
    """Read all grammars, then answer one by one, so that it can be seen which one ended the process."""
    llama_cpp.llama_log_set(_quiet, None)
    params = llama_cpp.llama_model_default_params()
    params.vocab_only = True
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    vocab = llama_cpp.llama_model_get_vocab(model)
    for grammar in json.load(sys.stdin):
        sampler = llama_cpp.llama_sampler_init_grammar(vocab, grammar.encode(), b"root")
        if sampler:
            _follow(sampler, llama_cpp.llama_vocab_n_tokens(vocab))
            llama_cpp.llama_sampler_free(sampler)
        print("+" if sampler else "-", flush=True)


def _follow(sampler: object, n_vocab: int) -> None:
    """Go on by the last token that is allowed, some times, as long as it takes no time: states can multiply."""
    started = time.process_time()
    while time.process_time() - started < 0.02:
        data = (llama_cpp.llama_token_data * n_vocab)(*[(token, 0.0, 0.0) for token in range(n_vocab)])
        array = llama_cpp.llama_token_data_array(data, n_vocab, -1, False)
        llama_cpp.llama_sampler_apply(sampler, array)
        allowed = [entry.id for entry in data if entry.logit == 0.0]
        if not allowed:
            return
        llama_cpp.llama_sampler_accept(sampler, allowed[-1])


@llama_cpp.llama_log_callback
def _quiet(_level: int, _text: bytes, _data: object) -> None:
    pass


if __name__ == "__main__":
    main(Path(sys.argv[1]))
