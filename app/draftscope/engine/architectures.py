"""What the pinned libllama does with each architecture, as far as it matters before loading.

Read from the source of llama-cpp-python 0.3.36 (``src/llama-arch.cpp``, ``llama-hparams.cpp``, ``llama-model.cpp`` and
``src/models/*.cpp``); to be read again when the pin moves. Names are the values of ``general.architecture``.
"""

from __future__ import annotations

RECURRENT = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
"""Every layer keeps a recurrent state and nothing else."""

HYBRID = frozenset(
    {
        "jamba", "falcon-h1", "plamo2", "granitehybrid", "lfm2", "lfm2moe", "nemotron_h", "nemotron_h_moe",
        "qwen3next", "kimi-linear", "bailingmoe3", "kimi-k3", "glm5-next", "qwen35", "qwen35moe", "qwen4exp",
        "deepseek4", "minimax-01",
    }
)  # fmt: skip
"""Some layers keep a recurrent state, others keys and values."""

NATIVE_ROLLBACK = frozenset(
    {
        "kimi-k3", "qwen35", "qwen35moe", "qwen4exp", "deepseek4", "glm5-next", "nemotron_h", "nemotron_h_moe",
        "lfm2", "lfm2moe", "bailingmoe3",
    }
)  # fmt: skip
"""libllama itself steps the recurrent state back (``n_rs_seq``)."""

PATCHED_ROLLBACK = frozenset({"qwen3next"})
"""The same, but only in a libllama built with our patches."""

NO_MEMORY = frozenset(
    {
        "bert", "jina-bert-v2", "jina-bert-v3", "nomic-bert", "nomic-bert-moe", "neo-bert", "eurobert",
        "modern-bert", "wavtokenizer-dec", "gemma-embedding", "dream", "llada", "llada-moe", "rnd1",
    }
)  # fmt: skip
"""Encoders and diffusion models: they keep no memory of tokens, so they cannot generate one after another."""

NOT_A_LANGUAGE_MODEL = frozenset({"clip", "t5encoder", "eagle3", "dflash"})
"""Companions of another model (vision, text encoders, drafters of other kinds): cannot be run alone."""

ASSISTANT_OF = {"gemma4-assistant": "gemma4"}
"""The MTP head of another model as a file of its own, which reads that model's keys and values."""

DRAFT_ONLY = frozenset(ASSISTANT_OF)
"""Cannot run alone."""

ASSISTED = frozenset(ASSISTANT_OF.values())
"""Have no MTP layers of their own, but an assistant."""

SINGLE_HEAD = frozenset(
    {
        "qwen35", "qwen35moe", "qwen3next", "glm4moe", "deepseek2", "mistral4", "deepseek32", "deepseek4",
        "glm-dsa", "bailingmoe3", "cohere2moe", "nemotron_h_moe", "glm5-next",
    }
)  # fmt: skip
"""Their MTP graph has exactly one head, which feeds itself its own output; it asserts that there is just one."""

CHAINED_HEADS = frozenset({"step35", "mimo2", "hy_v3"})
"""Their MTP graph takes one head for each draft step."""

RECURRENT_BY_INTERVAL = {"qwen35": 4, "qwen35moe": 4, "qwen3next": 4, "qwen4exp": 4, "minimax-01": 8}
"""Every n-th layer (the default n) is full attention, the others are recurrent, unless the file has a list."""

OTHER_CACHES = frozenset(
    {"minimax-m3", "glm-dsa", "deepseek32", "deepseek4", "glm5-next", "hy_v4", "dots3note", "graniteswitch"}
)
"""Keep more than keys and values (indexer keys, compressed rows) or repurpose layers: their bytes are not predicted."""

KNOWN = frozenset(
    {
        "llama", "llama4", "deci", "falcon", "grok", "gpt2", "gptj", "gptneox", "mpt", "baichuan", "starcoder",
        "refact", "bloom", "stablelm", "qwen", "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen3moe", "qwen3vl",
        "qwen3vlmoe", "phi2", "phi3", "phimoe", "plamo", "plamo3", "codeshell", "orion", "internlm2", "minicpm",
        "minicpm3", "gemma", "gemma2", "gemma3", "gemma3n", "starcoder2", "maple", "xverse", "command-r",
        "cohere2", "dbrx", "olmo", "olmo2", "olmoe", "muse-glimmer", "openelm", "arctic", "deepseek",
        "deepseek2-ocr", "chatglm", "glm4", "bitnet", "t5", "jais", "jais2", "nemotron", "exaone", "exaone4",
        "exaone-moe", "granite", "granitemoe", "graniteswitch", "granite_swa", "chameleon", "plm", "bailingmoe",
        "bailingmoe2", "dots1", "arcee", "afmoe", "laguna", "ernie4_5", "ernie4_5-moe", "hunyuan-moe",
        "hunyuan-dense", "hunyuan_vl", "smollm3", "gpt-oss", "smallthinker", "seed_oss", "grovemoe", "apertus",
        "hrm_text", "minimax-m2", "cogvlm", "pangu-embedded", "mistral3", "paddleocr", "spark2_5",
        "llama-embed", "maincoder", "talkie", "mellum", "nanbeige", "qwen3tts", "pockettts",
    }
).union(
    RECURRENT, HYBRID, NO_MEMORY, NOT_A_LANGUAGE_MODEL, DRAFT_ONLY, ASSISTED, SINGLE_HEAD, CHAINED_HEADS, OTHER_CACHES
)  # fmt: skip
"""Every architecture that the pinned libllama knows."""


def has_recurrent_state(architecture: str) -> bool:
    """Whether a part of the memory is a state that cannot drop its newest tokens."""
    return architecture in RECURRENT or architecture in HYBRID
