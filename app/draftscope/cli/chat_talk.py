"""Turns of a conversation on an engine: each generates an answer, shows it as it comes, and keeps its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TextIO

from draftscope.cli.generation import Generation
from draftscope.cli.live_view import TextStream, View
from draftscope.cli.plan import Plan
from draftscope.engine.client import Client
from draftscope.engine.dialogue import Dialogue
from draftscope.engine.events import Records
from draftscope.engine.protocol import Prompt, SlotResult, SlotTask


class ChatView(View):
    """Streams the answers to ``out``; without one it only keeps what comes."""

    def __init__(self, out: TextIO | None, stop: tuple[str, ...], *, is_verbose: bool) -> None:
        super().__init__(is_verbose=is_verbose)
        self._out = out
        self._stop = stop
        self._stream: TextStream | None = None

    def begin_answer(self, prompt: Prompt) -> int:
        """An answer to this prompt is about to come; the prompt's index."""
        self.prompts.append(prompt)
        if self._out is not None:
            self._stream = TextStream(self.pieces, self._stop, self._out)
        return len(self.prompts) - 1

    def on_pieces(self, pieces: Mapping[int, bytes]) -> None:
        """See ``View``; what was held back may go on now."""
        super().on_pieces(pieces)
        if self._stream is not None:
            self._stream.go_on()

    def _show_tokens(self, kept: Records) -> None:
        if self._stream is not None:
            self._stream.add(kept)
        else:
            super()._show_tokens(kept)

    def _show_result(self, _prompt: int, result: SlotResult) -> None:
        if self._stream is None or self._out is None:
            return
        self._stream.finish(result)
        self._stream = None
        self._out.write("" if result.text.endswith("\n") else "\n")
        self._out.flush()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a turn gave; ``is_interrupted``: Ctrl-C ended it."""

    result: SlotResult
    is_interrupted: bool


class Talk:
    """One conversation in slot 0. ``results``: of every answer that was generated, also of those dropped since."""

    def __init__(self, client: Client, view: ChatView, dialogue: Dialogue, plan: Plan) -> None:
        self.dialogue = dialogue
        self.results: list[SlotResult] = []
        self._client = client
        self._view = view
        self._plan = plan

    def answer(self) -> Answer:
        """Generate the answer to what was said last; every further answer to the same takes the next seed.

        Raises:
            DialogueError: there is nothing to answer.
            EngineError: refused or died; then no turn was added.
        """
        prompt = self.dialogue.prompt()
        settings = self._plan.prompts[0]
        task = SlotTask(
            0,
            prompt,
            replace(settings.sampling, seed=settings.sampling.seed + self.dialogue.n_answers),
            settings.max_tokens,
            self._plan.stop,
            self._plan.ignore_eos,
            grammar=settings.grammar,
            json_schema=settings.json_schema,
        )
        outcome = Generation(self._client, self._view).run([(self._view.begin_answer(prompt), task)])
        ((_, result),) = outcome.results
        self.results.append(result)
        self.dialogue.take_answer(result)
        return Answer(result, outcome.is_interrupted)
