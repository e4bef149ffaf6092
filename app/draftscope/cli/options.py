"""Options that several commands have: model and engine, prompts, sampling; and the types that check their values."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from draftscope.base.paths import demo_model, resource
from draftscope.cli.failure import UsageError
from draftscope.cli.prompts import RunPrompt, read_prompts
from draftscope.cli.rpc_option import add_rpc_option
from draftscope.engine.protocol import (
    CatchUp,
    ChatMessage,
    CheckpointMode,
    ContextSettings,
    ModelSettings,
    Prompt,
    Replay,
)

DEMO = "demo"
"""The word that stands for the bundled model."""

_MAX_WHOLE = 2**31 - 1
"""What libllama's 32-bit numbers hold."""

Item = TypeVar("Item")


def add_model(parser: Any) -> None:
    """MODEL itself."""
    parser.add_argument("model", metavar="MODEL", help="a GGUF file, or 'demo' for the bundled model")


def add_draft_option(group: Any) -> None:
    """The assistant of a model that drafts with one; its value is ``draft_model``, empty without it."""
    text = "the model's assistant, where its MTP head is a file of its own (gemma4)"
    group.add_argument("--draft-model", metavar="FILE", default="", help=text)


def add_prompt_options(group: Any) -> None:
    """Where the prompts come from; see ``prompts_of``."""
    group.add_argument("--prompt", metavar="T", action="append", help="a prompt; may be given several times")
    group.add_argument("--prompts", metavar="F.jsonl", type=Path, help="prompts from a JSON Lines file")
    group.add_argument("--chat", action="store_true", help="put each --prompt through the model's chat template")


def add_sampling_options(group: Any) -> None:
    """How is generated, and until when; see ``with_given``. Those left out take what the prompt has."""
    group.add_argument("--max-tokens", metavar="N", type=at_least(1), help="tokens to generate a prompt")
    group.add_argument("--temp", metavar="T", type=real(0.0), help="temperature; 0 takes the most probable token")
    group.add_argument("--seed", metavar="S", type=at_least(0), help="seed of the sampler")
    group.add_argument("--top-k", metavar="N", type=at_least(0), help="sample from the N most probable; 0: off")
    group.add_argument("--top-p", metavar="P", type=real(0.0, 1.0), help="sample from the top mass P; 1: off")
    group.add_argument("--min-p", metavar="P", type=real(0.0, 1.0), help="least share of the best token's p; 0: off")
    group.add_argument("--repeat-penalty", metavar="X", type=real(0.0), help="penalty on repeated tokens; 1: off")
    group.add_argument("--presence-penalty", metavar="X", type=real(-2.0, 2.0), help="penalty on seen tokens; 0: off")
    group.add_argument("--stop", metavar="TEXT", action="append", default=[], help="end at this text; may be repeated")
    group.add_argument("--ignore-eos", action="store_true", help="go on after an end-of-generation token")


def add_speculation_options(group: Any) -> None:
    """What is drafted, and how the target goes back; see ``context_settings``."""
    group.add_argument("--draft-max", metavar="K", type=at_least(0), help="tokens to draft a round (default 3)")
    group.add_argument("--no-mtp", action="store_true", help="generate without drafts")
    group.add_argument(
        "--checkpoint",
        choices=[mode.value for mode in CheckpointMode],
        default=CheckpointMode.AUTO.value,
        help="how the target goes back after a rejected draft (default auto)",
    )
    group.add_argument(
        "--catch-up",
        choices=[way.value for way in CatchUp],
        default=CatchUp.RIDE.value,
        help="decode catch-up rows with the first draft step, or alone (default ride)",
    )
    group.add_argument(
        "--replay",
        choices=[way.value for way in Replay],
        default=Replay.MEASURED.value,
        help="decode again after a restore with the next verification, alone, or as measured costs say (default)",
    )


def context_settings(options: argparse.Namespace, n_slots: int) -> ContextSettings:
    """The contexts, from the speculation and engine options."""
    defaults = ContextSettings(n_slots=n_slots, use_mtp=not options.no_mtp)
    given: dict[str, Any] = {"n_ctx": options.ctx, "n_draft_max": options.draft_max}
    return replace(
        with_slot_memory(defaults, options),
        checkpoint=CheckpointMode(options.checkpoint),
        n_threads=options.threads,
        catch_up=CatchUp(options.catch_up),
        replay=Replay(options.replay),
        **{name: value for name, value in given.items() if value is not None},
    )


def add_slot_memory_options(group: Any) -> None:
    """What slots keep of earlier prompts; see ``with_slot_memory``."""
    defaults, add = ContextSettings(), group.add_argument
    text = f"host memory for earlier positions of the slots (default {defaults.prompt_checkpoints_mib}); 0: off"
    add("--prompt-checkpoints", metavar="MIB", type=at_least(0), help=text)
    text = f"tokens between two of them, at most (default {defaults.prompt_checkpoint_spacing})"
    add("--prompt-checkpoint-spacing", metavar="N", type=at_least(16), help=text)
    text = f"host memory for prompts that left their slots (default {defaults.prompt_cache_mib}); 0: off"
    add("--prompt-cache", metavar="MIB", type=at_least(0), help=text)
    add("--context-shift", action="store_true", help="a full slot forgets its older half instead of ending its task")
    text = "save states without their hidden rows, which are zero after a restore: to see what they are worth"
    add("--no-hooks", action="store_true", help=text)


def with_slot_memory(context: ContextSettings, options: argparse.Namespace) -> ContextSettings:
    """The contexts with what the slot memory options say."""
    given = {
        "prompt_checkpoints_mib": options.prompt_checkpoints,
        "prompt_checkpoint_spacing": options.prompt_checkpoint_spacing,
        "prompt_cache_mib": options.prompt_cache,
    }
    return replace(
        context,
        use_hooks=not options.no_hooks,
        shift=options.context_shift,
        **{name: value for name, value in given.items() if value is not None},
    )


def add_engine_options(group: Any) -> None:
    """Where the model is put and how it is computed; see ``model_settings``."""
    add_draft_option(group)
    add = group.add_argument
    add("--ctx", metavar="N", type=at_least(1), help="context of a slot in tokens (default 2048)")
    add("--threads", metavar="N", type=at_least(0), default=0, help="CPU threads (default: the engine's choice)")
    add("--device", metavar="D", action="append", default=[], help="as 'doctor' names it; may be repeated")
    add("--n-gpu-layers", metavar="N", type=at_least(-1), default=-1, help="layers on devices; -1 (default): all")
    add("--no-mmap", action="store_true", help="read the file instead of mapping it")
    add_rpc_option(group, "put the model on a llama.cpp RPC server, before local GPUs; may be repeated")
    add("--in-process", action="store_true", help="no child process for the engine; a lost RPC server then ends all")


def model_settings(options: argparse.Namespace) -> ModelSettings:
    """What to load, from the model and engine options."""
    return ModelSettings(
        path=str(demo_model()) if options.model == DEMO else options.model,
        n_gpu_layers=options.n_gpu_layers,
        devices=tuple(options.device),
        use_mmap=not options.no_mmap,
        rpc_servers=tuple(options.rpc),
        draft_path=options.draft_model,
    )


def prompts_of(options: argparse.Namespace) -> list[RunPrompt]:
    """The prompts that the options give, or the demo's for the demo; empty where there are none.

    Raises:
        UsageError: options that exclude each other or miss each other.
        InputError: the prompts file cannot be used.
    """
    if options.prompt and options.prompts:
        raise UsageError("--prompt and --prompts exclude each other.", "Give prompts in one of the two ways.")
    if options.chat and not options.prompt:
        raise UsageError("--chat needs --prompt.", 'In a prompts file, write {"messages": [...]} for a chat.')
    if any(not text for text in options.prompt or ()):
        raise UsageError("A --prompt is empty.", "Give it at least one character.")
    if options.prompts:
        return read_prompts(options.prompts)
    demo = demo_prompts() if options.model == DEMO else []
    if options.prompt:
        like = demo[0] if demo else RunPrompt(Prompt())
        return [replace(like, prompt=_prompt(text, is_chat=options.chat)) for text in options.prompt]
    return demo


def demo_prompts() -> list[RunPrompt]:
    """The prompts that come with the bundled model."""
    return read_prompts(resource("prompts", "demo.jsonl"))


def _prompt(text: str, *, is_chat: bool) -> Prompt:
    return Prompt(messages=(ChatMessage("user", text),)) if is_chat else Prompt(text=text)


def with_given(prompt: RunPrompt, options: argparse.Namespace) -> RunPrompt:
    """The prompt with the options of the command line, which go before those of a prompts file."""
    given = {
        "temperature": options.temp,
        "seed": options.seed,
        "top_k": options.top_k,
        "top_p": options.top_p,
        "min_p": options.min_p,
        "repeat_penalty": options.repeat_penalty,
        "presence_penalty": options.presence_penalty,
    }
    return replace(
        prompt,
        sampling=replace(prompt.sampling, **{name: value for name, value in given.items() if value is not None}),
        max_tokens=prompt.max_tokens if options.max_tokens is None else options.max_tokens,
    )


def at_least(low: int) -> Callable[[str], int]:
    """The type of an option that takes whole numbers from ``low`` on."""

    def whole(text: str) -> int:
        value = int(text)
        if not low <= value <= _MAX_WHOLE:
            raise argparse.ArgumentTypeError(f"{text} is not a whole number from {low} to {_MAX_WHOLE}")
        return value

    whole.__name__ = "whole number"
    return whole


def real(low: float, high: float = 1e6) -> Callable[[str], float]:
    """The type of an option that takes numbers in a range."""

    def number(text: str) -> float:
        value = float(text)
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text} is not between {low:g} and {high:g}")
        return value

    number.__name__ = "number"
    return number


def comma_list(item: Callable[[str], Item]) -> Callable[[str], tuple[Item, ...]]:
    """The type of an option that takes several values with commas between; each counts once, in their order."""

    def values(text: str) -> tuple[Item, ...]:
        return tuple(dict.fromkeys(item(part.strip()) for part in text.split(",")))

    values.__name__ = f"list of {getattr(item, '__name__', 'value')}s"
    return values


def one_of(names: type[Item]) -> Callable[[str], Item]:
    """The type of an option that takes the values of an enum of words."""
    words = [str(word) for word in names]  # type: ignore[attr-defined]

    def word(text: str) -> Item:
        if text not in words:
            raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(words)}")
        return names(text)  # type: ignore[call-arg]

    word.__name__ = "word"
    return word
