"""What libllama itself generates under a grammar: its sampler chain with the grammar first, over all candidates."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import llama_cpp

from draftscope.engine.protocol import SamplingSettings
from tests.engine_ext.bare_llama import Context, Row, load


@functools.cache
def _model(path: Path) -> int:
    model = load(path, load_mtp=False)
    assert model is not None
    return model


def _chain(vocab: Any, n_vocab: int, grammar: str, sampling: SamplingSettings) -> Any:
    chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
    eog = [token for token in range(n_vocab) if llama_cpp.llama_vocab_is_eog(vocab, token)]
    biases = (llama_cpp.llama_logit_bias * len(eog))(*[(token, float("-inf")) for token in eog])
    parts = [llama_cpp.llama_sampler_init_logit_bias(n_vocab, len(eog), biases)]
    parts.append(llama_cpp.llama_sampler_init_grammar(vocab, grammar.encode(), b"root"))
    if sampling.repeat_penalty != 1.0 or sampling.presence_penalty != 0.0:
        penalties = (sampling.repeat_last_n, sampling.repeat_penalty, 0.0, sampling.presence_penalty)
        parts.append(llama_cpp.llama_sampler_init_penalties(n_vocab, *penalties))
    if sampling.temperature == 0.0:
        parts.append(llama_cpp.llama_sampler_init_greedy())
    else:
        if sampling.top_k:
            parts.append(llama_cpp.llama_sampler_init_top_k(sampling.top_k))
        if sampling.top_p < 1.0:
            parts.append(llama_cpp.llama_sampler_init_top_p(sampling.top_p, 1))
        if sampling.min_p > 0.0:
            parts.append(llama_cpp.llama_sampler_init_min_p(sampling.min_p, 1))
        parts.append(llama_cpp.llama_sampler_init_temp(sampling.temperature))
        parts.append(llama_cpp.llama_sampler_init_dist(sampling.seed))
    for part in parts:
        llama_cpp.llama_sampler_chain_add(chain, part)
    return chain, parts


def generate(path: Path, prompt: str, grammar: str, sampling: SamplingSettings, n: int) -> list[int]:
    """The n tokens that follow the prompt, end-of-generation ones never."""
    model = _model(path)
    context = Context(model)
    vocab = llama_cpp.llama_model_get_vocab(model)
    text = prompt.encode()
    room = (llama_cpp.llama_token * 256)()
    n_prompt = llama_cpp.llama_tokenize(vocab, text, len(text), room, 256, True, True)
    chain, parts = _chain(vocab, context.n_vocab, grammar, sampling)
    if len(parts) > 2 and (sampling.repeat_penalty != 1.0 or sampling.presence_penalty != 0.0):
        for token in room[:n_prompt]:
            llama_cpp.llama_sampler_accept(parts[2], token)  # the prompt counts for penalties alone
    context.decode([Row(0, room[i], i, is_output=i == n_prompt - 1) for i in range(n_prompt)])
    tokens: list[int] = []
    while len(tokens) < n:
        tokens.append(llama_cpp.llama_sampler_sample(chain, context.handle, -1))
        context.decode([Row(0, tokens[-1], n_prompt + len(tokens) - 1)])
    llama_cpp.llama_sampler_free(chain)
    context.free()
    return tokens
