"""The loop of a chat: takes a line, does what it says, prints what came of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from draftscope.cli.chat_commands import COMMAND_LIST, numbered, parse_line
from draftscope.cli.chat_lines import Lines
from draftscope.cli.chat_stats import stats_as_json, stats_as_text
from draftscope.cli.chat_talk import Talk
from draftscope.cli.failure import ExitCode, RunError, UsageError, failure_of, tell
from draftscope.cli.run_summary import acceptance_of, task_as_json
from draftscope.cli.terminal import note
from draftscope.engine.codec import as_plain
from draftscope.engine.dialogue import USER, DialogueError
from draftscope.engine.dialogue_file import NotSaved, load_dialogue, save_dialogue
from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.protocol import ModelReport
from draftscope.trace.answer_words import answer_words
from draftscope.trace.operation_words import reuse_clause


class ChatLoop:
    """Runs until the input ends. At a terminal an error is told and the conversation goes on; in a pipe it ends it."""

    def __init__(self, talk: Talk, lines: Lines, model: ModelReport, *, save_to: Path | None, as_json: bool) -> None:
        self._talk = talk
        self._dialogue = talk.dialogue
        self._lines = lines
        self._model = model
        self._save_to = save_to
        self._as_json = as_json
        self._is_over = False
        self._code = ExitCode.DONE
        self._commands: dict[str, Callable[[str], None]] = {
            "regenerate": self._regenerate,
            "edit": self._edit,
            "back": self._bring_back,
            "delete": self._delete,
            "clear": self._clear,
            "system": self._system,
            "show": self._show,
            "save": lambda argument: save_dialogue(self._dialogue, Path(argument).expanduser()),
            "load": self._load,
            "stats": self._stats,
            "help": lambda _: print(COMMAND_LIST, file=sys.stderr),
            "quit": self._quit,
        }

    def run(self) -> int:
        """Talk; the exit code."""
        if self._lines.is_interactive:
            note("Write a message; /help lists the commands.")
        while not self._is_over and (line := self._lines.next()) is not None:
            try:
                self._do(line)
            except (UsageError, DialogueError, EngineError) as error:
                self._tell(error)
        return int(self._code)

    def _do(self, line: str) -> None:
        asked = parse_line(line)
        if asked.command:
            self._commands[asked.command](asked.argument)
        elif asked.argument.strip() or self._dialogue.is_plain:
            self._dialogue.say(asked.argument)
            try:
                self._answer("say")
            except EngineError as error:
                if error.code is ErrorCode.BAD_PROMPT:  # else the same would be refused with every message to come
                    self._dialogue.delete_last()
                raise

    def _tell(self, error: UsageError | RunError | DialogueError | EngineError) -> None:
        if isinstance(error, NotSaved):
            error = RunError(error.message, error.hint)
        elif isinstance(error, DialogueError):
            error = UsageError(error.message, error.hint)
        is_lost = isinstance(error, EngineError) and error.code is ErrorCode.ENGINE_DIED
        if is_lost or not self._lines.is_interactive:
            if isinstance(error, UsageError | RunError):
                error = type(error)(f"{self._lines.place}{error.message}", error.hint)
            raise error
        tell(failure_of(error), as_json=self._as_json, in_one_line=True)

    def _answer(self, operation: str) -> None:
        answer = self._talk.answer()
        result = answer.result
        if self._as_json:
            self._print_turn(operation)
        elif self._lines.is_interactive:
            words = answer_words(result.n_prompt, result.n_reused, acceptance_of([result]), result.stop)
            print(f"[{' · '.join(words)}]", file=sys.stderr)
            if not result.n_reused and (clause := reuse_clause(0, result.reuse, result.n_prompt)):
                print(f"[{clause}]", file=sys.stderr)
        if self._save_to is not None:
            save_dialogue(self._dialogue, self._save_to)
        if result.error:
            note(f"The answer failed: {result.error}")
            self._code = ExitCode.RUN_FAILED
        if answer.is_interrupted and not self._lines.is_interactive:
            self._code, self._is_over = ExitCode.INTERRUPTED, True

    def _print_turn(self, operation: str) -> None:
        result = self._talk.results[-1]
        figures = task_as_json(0, result)
        del figures["prompt"]
        turn = {"turn": len(self._talk.results), "operation": operation}
        self._print_json(turn | {"messages": as_plain(self._dialogue.messages())} | figures)

    # ---- commands

    def _regenerate(self, _argument: str) -> None:
        self._dialogue.regenerate()
        self._answer("regenerate")

    def _edit(self, argument: str) -> None:
        number, text = numbered(argument)
        indices = self._dialogue.user_turns
        if number > len(indices):
            raise UsageError(f"There is no message {number}.", "/show numbers the messages.")
        index = indices[number - 1]
        asked = text or self._lines.ask(f"{number}> ", self._dialogue.turns[index].text)
        if not asked:
            raise UsageError(f"/edit {number} needs the new text.")
        self._dialogue.edit(index, asked)
        self._answer("edit")

    def _bring_back(self, _argument: str) -> None:
        self._dialogue.bring_back()
        self._show("")

    def _delete(self, _argument: str) -> None:
        self._dialogue.delete_last()

    def _clear(self, _argument: str) -> None:
        self._dialogue.clear()

    def _system(self, argument: str) -> None:
        if argument:
            self._dialogue.edit_system("" if argument == "-" else argument)
        elif self._as_json:
            self._print_json({"system": self._dialogue.system})
        else:
            print(self._dialogue.system or "There is no system prompt.", file=sys.stderr)

    def _load(self, argument: str) -> None:
        load_dialogue(self._dialogue, Path(argument).expanduser())
        self._dialogue.is_plain |= not self._model.has_chat_template
        self._show("")

    def _show(self, _argument: str) -> None:
        if self._as_json:
            self._print_json({"messages": as_plain(self._dialogue.messages())})
            return
        number = 0
        if self._dialogue.system:
            print(f"system: {self._dialogue.system}", file=sys.stderr)
        for turn in self._dialogue.turns:
            number += turn.role == USER
            mark = f"{number}> " if turn.role == USER else "" if turn.result else f"{turn.role}: "
            print(f"{mark}{turn.text}", file=sys.stderr)

    def _stats(self, _argument: str) -> None:
        if self._as_json:
            self._print_json({"stats": stats_as_json(self._talk.results, self._model)})
        else:
            print(stats_as_text(self._talk.results, self._model), file=sys.stderr)

    def _quit(self, _argument: str) -> None:
        self._is_over = True

    def _print_json(self, value: dict[str, Any]) -> None:
        print(json.dumps(value, allow_nan=False), flush=True)
