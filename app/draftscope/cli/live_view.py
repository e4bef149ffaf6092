"""What is seen and kept while a run goes on: load progress, tokens as they come, the store and the trace file."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TextIO

from draftscope.cli.plan import Plan
from draftscope.cli.terminal import ProgressLine, note
from draftscope.cli.trace_recorder import TraceRecorder
from draftscope.engine.events import Kind, Origin, Records
from draftscope.engine.probes import ArrayKind, SideArray
from draftscope.engine.protocol import LogLine, ModelReport, Prompt, SlotResult
from draftscope.trace.answer_words import END_WORDS
from draftscope.trace.pieces import PieceTable
from draftscope.trace.round_numbers import RoundNumbers
from draftscope.trace.store import TraceStore

_LOG_KEPT = 2000
"""Lines of the log that are kept for a recorder that comes later."""


class View:
    """Keeps everything and shows progress on stderr; what it prints of the texts is up to its subclasses.

    ``prompts``: what the tasks start from, for the trace file; results name them by their index.
    """

    def __init__(self, *, is_verbose: bool, prompts: Iterable[Prompt] = ()) -> None:
        self.prompts = list(prompts)
        self.store = TraceStore()
        self.pieces = PieceTable()
        self._recorder: TraceRecorder | None = None
        self._progress = ProgressLine(sys.stderr)
        self._is_verbose = is_verbose
        self._n_tokens = 0
        self._held: Mapping[tuple[int, int], str] = {}
        self._round_numbers = RoundNumbers()
        self._log: deque[LogLine] = deque(maxlen=_LOG_KEPT)

    def __enter__(self) -> View:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.clear()

    def record_to(self, recorder: TraceRecorder) -> None:
        """Pass on everything from now on, and what was logged so far."""
        self._recorder = recorder
        for line in self._log:
            recorder.add_log(line)
        self._log.clear()

    def on_progress(self, fraction: float, stage: str) -> None:
        """See ``Sink``."""
        self._progress.show(f"Loading: {stage}", fraction)

    def on_loaded(self, model: ModelReport) -> None:
        """Tell what was granted otherwise than asked."""
        self._progress.clear()
        if model.n_slots != model.n_slots_asked:
            note(f"{model.n_slots_asked} slots were asked for, {model.n_slots} granted.")

    def on_start(self, held: Mapping[tuple[int, int], str]) -> None:
        """The run begins; ``held``: by prompt and slot, the text that the slot holds and the task goes on from."""
        self._held = held

    def on_pieces(self, pieces: Mapping[int, bytes]) -> None:
        """See ``Sink``."""
        self.pieces.add(pieces)
        if self._recorder:
            self._recorder.add_pieces(pieces)

    def on_records(self, records: Records) -> None:
        """See ``Sink``. The rounds in ``records`` are numbered on."""
        self._round_numbers.continue_in(records)
        self.store.append(records)
        if self._recorder:
            self._recorder.append(records)
        kept = records[(records["kind"] == Kind.TOKEN) & (records["code"] != Origin.REJECTED)]
        self._n_tokens += len(kept)
        self._show_tokens(kept)

    def on_arrays(self, arrays: list[SideArray]) -> None:
        """See ``Sink``. The rounds of results are numbered on."""
        for array in arrays:
            if array.kind is ArrayKind.RESULT:
                self._round_numbers.continue_in_probes(array.values)
        self.store.append_arrays(arrays)
        if self._recorder:
            self._recorder.append_arrays(arrays)

    def on_result(self, prompt: int, result: SlotResult) -> None:
        """See ``Sink``."""
        if self._recorder:
            self._recorder.add_result(prompt, self.prompts[prompt], result)
        self._progress.clear()
        self._show_result(prompt, result)

    def on_log(self, line: LogLine) -> None:
        """See ``Sink``."""
        if self._recorder:
            self._recorder.add_log(line)
        else:
            self._log.append(line)
        if self._is_verbose:
            self._progress.clear()
            print(f"[{line.level}] {line.text}", file=sys.stderr)

    def _show_tokens(self, kept: Records) -> None:
        if len(kept):
            self._progress.show(f"Generating: {self._n_tokens} tokens")

    def _show_result(self, _prompt: int, result: SlotResult) -> None:
        pass


class BlockView(View):
    """Prints the text of a task when it has ended, under a heading that names its slot."""

    def __init__(self, plan: Plan, out: TextIO, *, is_verbose: bool) -> None:
        super().__init__(is_verbose=is_verbose, prompts=_prompts(plan))
        self._plan = plan
        self._out = out

    def _show_result(self, prompt: int, result: SlotResult) -> None:
        end = END_WORDS.get(result.stop, result.stop)
        title = f"slot {result.slot}, prompt {prompt + 1} of {len(self._plan.prompts)}: {end}"
        start = self._held.get((prompt, result.slot), "") + self._plan.prompts[prompt].prompt.text
        self._out.write(f"--- {title}\n{start}{result.text}\n\n")
        self._out.flush()


class TextStream:
    """Writes the text of one task as its tokens come.

    Held back until it is certain: a token whose bytes are not known yet and those behind it, the newest token (it may
    end the generation, and such a token is no text), and characters that may be the begin of a stop string.
    """

    def __init__(self, pieces: PieceTable, stop: tuple[str, ...], out: TextIO) -> None:
        self._pieces = pieces
        self._stop = stop
        self._out = out
        self._n_held = max((len(text) - 1 for text in stop), default=0)
        self._tokens: deque[int] = deque()
        self._decoder = pieces.decoder()
        self._text = ""
        self._n_written = 0

    def add(self, kept: Records) -> None:
        """Take the next tokens that were not rejected."""
        self._tokens.extend(int(token) for token in kept["token"])
        self.go_on()

    def go_on(self) -> None:
        """Write what has become certain."""
        while len(self._tokens) > 1 and self._pieces.piece(self._tokens[0]) is not None:
            self._text += self._decoder.decode(self._tokens.popleft())
        self._write(self._text, len(self._text) - self._n_held)

    def finish(self, result: SlotResult) -> None:
        """Write the rest of the text, now that the whole of it is known."""
        if result.text.startswith(self._text[: self._n_written]):
            self._write(result.text, len(result.text))

    def _write(self, text: str, end: int) -> None:
        end = min([end, *(at for stop in self._stop if (at := text.find(stop)) >= 0)])
        if end > self._n_written:
            self._out.write(text[self._n_written : end])
            self._out.flush()
            self._n_written = end


class StreamView(View):
    """Prints the text of the only task as it comes."""

    def __init__(self, plan: Plan, out: TextIO, *, is_verbose: bool) -> None:
        super().__init__(is_verbose=is_verbose, prompts=_prompts(plan))
        self._out = out
        self._prompt = plan.prompts[0].prompt.text
        self._stream = TextStream(self.pieces, plan.stop, out)
        self._is_begun = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if self._is_begun:  # what is told of the error begins a line of its own
            self._out.write("\n")
            self._out.flush()

    def on_start(self, held: Mapping[tuple[int, int], str]) -> None:
        """See ``View``; then what the text goes on from."""
        super().on_start(held)
        self._is_begun = True
        self._out.write("".join(held.values()) + self._prompt)
        self._out.flush()

    def on_pieces(self, pieces: Mapping[int, bytes]) -> None:
        """See ``View``; what was held back may go on now."""
        super().on_pieces(pieces)
        self._stream.go_on()

    def _show_tokens(self, kept: Records) -> None:
        self._stream.add(kept)

    def _show_result(self, _prompt: int, result: SlotResult) -> None:
        self._stream.finish(result)
        self._is_begun = False
        self._out.write("\n\n")
        self._out.flush()


def make_view(plan: Plan, *, as_json: bool, is_verbose: bool) -> View:
    """The view for a plan: quiet with JSON, streaming for a single task, else blocks."""
    if as_json:
        return View(is_verbose=is_verbose, prompts=_prompts(plan))
    if plan.context.n_slots == 1 and len(plan.prompts) == 1:
        return StreamView(plan, sys.stdout, is_verbose=is_verbose)
    return BlockView(plan, sys.stdout, is_verbose=is_verbose)


def _prompts(plan: Plan) -> list[Prompt]:
    return [chosen.prompt for chosen in plan.prompts]
