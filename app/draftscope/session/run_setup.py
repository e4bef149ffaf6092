"""What the next run would be: prompts, contexts and sampling as the controls of the window show them."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, replace

from PySide6.QtCore import QObject, Signal

from draftscope.engine.codec import ProtocolError, as_plain, build
from draftscope.engine.errors import EngineError
from draftscope.engine.protocol import CheckpointMode, ContextSettings, Prompt, SamplingSettings, SlotTask
from draftscope.session.run_request import RunRequest
from draftscope.session.samples import N_DEMO_SLOTS, sample_prompts
from draftscope.session.settings import Settings


@dataclass(frozen=True, slots=True)
class SetupValues:
    """Values of a setup. ``prompts``: one a slot; slots beyond them repeat them in turn.

    ``grammar`` and ``json_schema`` are those of ``SlotTask``. Settings do not keep them: a start begins with free text.
    """

    context: ContextSettings
    sampling: SamplingSettings
    max_tokens: int
    stop: tuple[str, ...]
    ignore_eos: bool
    prompts: tuple[Prompt, ...]
    grammar: str = ""
    json_schema: str = ""

    def task(self, slot: int, prompt: Prompt) -> SlotTask:
        """The task that generates from a prompt in a slot."""
        return SlotTask(
            slot,
            prompt,
            self.sampling,
            self.max_tokens,
            self.stop,
            self.ignore_eos,
            grammar=self.grammar,
            json_schema=self.json_schema,
        )


class RunSetup(QObject):
    """The setup that the controls edit. ``change`` keeps it in the settings; ``show_request`` (a demo) does not."""

    changed = Signal()

    def __init__(self, settings: Settings, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._settings = settings
        self._values = from_settings(settings)

    @property
    def values(self) -> SetupValues:
        """The present values."""
        return self._values

    def change(self, values: SetupValues) -> None:
        """Take these values and keep them for the next start."""
        if values != self._values:
            self._values = values
            _to_settings(values, self._settings)
            self.changed.emit()

    @property
    def draft_length(self) -> int:
        """Most tokens drafted a round; 0 when drafting is off."""
        context = self._values.context
        return context.n_draft_max if context.use_mtp else 0

    def set_slots(self, n_slots: int) -> None:
        """Change the number of slots."""
        self.change(replace(self._values, context=replace(self._values.context, n_slots=n_slots)))

    def set_draft_length(self, n_draft_max: int) -> None:
        """Change the draft length; 0 switches drafting off."""
        self.change(replace(self._values, context=with_draft_length(self._values.context, n_draft_max)))

    def set_checkpoint(self, mode: CheckpointMode) -> None:
        """Change the way back that is asked for."""
        self.change(replace(self._values, context=replace(self._values.context, checkpoint=mode)))

    def set_temperature(self, temperature: float) -> None:
        """Change the temperature."""
        self.change(replace(self._values, sampling=replace(self._values.sampling, temperature=temperature)))

    def set_max_tokens(self, max_tokens: int) -> None:
        """Change how many tokens a slot generates at most."""
        self.change(replace(self._values, max_tokens=max_tokens))

    def show_request(self, request: RunRequest) -> None:
        """Take the values of a request, so that the controls tell the truth about it and can repeat it."""
        first = request.tasks[0]
        self._values = SetupValues(
            request.context,
            first.sampling,
            first.max_tokens,
            first.stop,
            first.ignore_eos,
            tuple(task.prompt for task in request.tasks),
            first.grammar,
            first.json_schema,
        )
        self.changed.emit()

    @property
    def has_prompts(self) -> bool:
        """Whether a run would have anything to do."""
        n_used = self._values.context.n_slots
        return any(not is_empty(prompt) for prompt in self._values.prompts[:n_used])

    def request(self) -> RunRequest:
        """The run that the values ask for. Slots without a prompt get none; all share the sampling."""
        v = self._values
        prompts = [v.prompts[slot % len(v.prompts)] for slot in range(v.context.n_slots)] if v.prompts else []
        tasks = tuple(v.task(slot, prompt) for slot, prompt in enumerate(prompts) if not is_empty(prompt))
        return RunRequest(v.context, tasks)


def with_draft_length(context: ContextSettings, n_draft_max: int) -> ContextSettings:
    """The contexts with another draft length; 0 means no MTP context."""
    return replace(context, n_draft_max=n_draft_max, use_mtp=n_draft_max > 0)


def is_empty(prompt: Prompt) -> bool:
    """Whether there is nothing to start from."""
    return not (prompt.text or prompt.tokens or any(message.content for message in prompt.messages))


def from_settings(settings: Settings) -> SetupValues:
    """The setup that the settings hold; the first samples where they hold no prompts that can be read."""
    try:
        prompts = tuple(build(Prompt, fields) for fields in json.loads(settings.text("run/prompts") or "[]"))
    except (ValueError, TypeError, ProtocolError):
        prompts = ()
    if not prompts:
        with contextlib.suppress(EngineError):  # without samples there are no prompts, which the window says
            prompts = tuple(sample.prompt for sample in sample_prompts()[:N_DEMO_SLOTS])
    context = ContextSettings(
        n_slots=settings.whole("context/n_slots"),
        n_ctx=settings.whole("context/n_ctx"),
        checkpoint=CheckpointMode(settings.text("context/checkpoint")),
        n_threads=settings.whole("context/n_threads"),
        shift=settings.flag("context/shift"),
        prompt_checkpoints_mib=settings.whole("context/prompt_checkpoints_mib"),
        prompt_cache_mib=settings.whole("context/prompt_cache_mib"),
    )
    return SetupValues(
        with_draft_length(context, settings.whole("context/n_draft_max")),
        SamplingSettings(
            temperature=settings.number("sampling/temperature"),
            top_k=settings.whole("sampling/top_k"),
            top_p=settings.number("sampling/top_p"),
            min_p=settings.number("sampling/min_p"),
            repeat_penalty=settings.number("sampling/repeat_penalty"),
            repeat_last_n=settings.whole("sampling/repeat_last_n"),
            presence_penalty=settings.number("sampling/presence_penalty"),
            seed=settings.whole("sampling/seed"),
        ),
        settings.whole("run/max_tokens"),
        tuple(line for line in settings.text("run/stop").split("\n") if line),
        settings.flag("run/ignore_eos"),
        prompts,
    )


def _to_settings(values: SetupValues, settings: Settings) -> None:
    context = values.context
    settings.set("context/n_slots", context.n_slots)
    settings.set("context/n_ctx", context.n_ctx)
    settings.set("context/n_threads", context.n_threads)
    settings.set("context/shift", context.shift)
    settings.set("context/prompt_checkpoints_mib", context.prompt_checkpoints_mib)
    settings.set("context/prompt_cache_mib", context.prompt_cache_mib)
    settings.set("context/n_draft_max", context.n_draft_max if context.use_mtp else 0)
    settings.set("context/checkpoint", context.checkpoint.value)
    for name, value in as_plain(values.sampling).items():
        settings.set(f"sampling/{name}", value)
    settings.set("run/max_tokens", values.max_tokens)
    settings.set("run/stop", "\n".join(values.stop))
    settings.set("run/ignore_eos", values.ignore_eos)
    settings.set("run/prompts", json.dumps(as_plain(values.prompts)))
