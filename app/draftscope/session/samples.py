"""The sample prompts that come with the program, and the demo made of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftscope.base.paths import demo_model, resource
from draftscope.engine.codec import ProtocolError, build
from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.protocol import ContextSettings, ModelSettings, Prompt, SamplingSettings, SlotTask
from draftscope.session.run_request import RunRequest

N_DEMO_SLOTS = 4

CHAT_EXAMPLES = (
    "Quote Psalm 23:1.",
    "What does the Python function read do?",
    "Write a Python function is_empty that does this: return True if the queue is empty.",
)
"""Messages of the three kinds that the bundled model was trained to answer; to others it answers as if to these."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A prompt with a title, and how it is best sampled."""

    title: str
    prompt: Prompt
    sampling: SamplingSettings
    max_tokens: int


def read_samples(path: Path) -> tuple[Sample, ...]:
    """The samples of a JSON Lines file: objects with ``title``, ``text`` or ``messages``, ``sampling``, ``max_tokens``.

    Raises:
        EngineError: code BAD_FILE; names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise EngineError(
            ErrorCode.BAD_FILE, f"The sample prompts {path} cannot be read: {error}.", "Install Draftscope again."
        ) from error
    return tuple(_parse(line, f"{path}, line {n}") for n, line in enumerate(lines, 1) if line.strip())


def _parse(line: str, place: str) -> Sample:
    try:
        fields: dict[str, Any] = json.loads(line)
        prompt = build(Prompt, {key: fields[key] for key in ("text", "messages") if key in fields})
        sampling = build(SamplingSettings, fields.get("sampling", {}))
        title = str(fields.get("title") or prompt.text or prompt.messages[-1].content)
        return Sample(title, prompt, sampling, int(fields.get("max_tokens", 256)))
    except (ValueError, TypeError, AttributeError, IndexError, ProtocolError) as error:
        raise EngineError(
            ErrorCode.BAD_FILE, f"{place} is no sample prompt: {error}.", "Install Draftscope again."
        ) from error


def sample_prompts() -> tuple[Sample, ...]:
    """The samples to choose from.

    Raises:
        EngineError: code BAD_FILE, when they are missing or damaged.
    """
    return read_samples(resource("prompts", "samples.jsonl"))


def demo_model_settings() -> ModelSettings:
    """How the bundled model is loaded."""
    return ModelSettings(str(demo_model()))


def demo_request() -> RunRequest:
    """The demo: one prompt in each of four slots, in contexts as they are by default.

    Raises:
        EngineError: code BAD_FILE, when the samples are missing or damaged.
    """
    samples = read_samples(resource("prompts", "demo.jsonl"))[:N_DEMO_SLOTS]
    tasks = tuple(
        SlotTask(slot, sample.prompt, sample.sampling, sample.max_tokens) for slot, sample in enumerate(samples)
    )
    return RunRequest(ContextSettings(n_slots=len(tasks)), tasks)


def chat_examples(path: str) -> tuple[str, ...]:
    """Messages that the model of this file is known to answer; none where nothing is known."""
    try:
        return CHAT_EXAMPLES if path == str(demo_model()) else ()
    except EngineError:  # the bundled model is missing, so it is not this one
        return ()
