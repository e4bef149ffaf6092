"""Renders conversations with the chat template of a model, which is a program that came with a file: do not trust it.

A template can loop for ever or ask for all memory, inside a single call that no thread could interrupt, and so can the
converter that makes grammars of JSON schemas. So both run in a process of their own (``chat_process``) that is killed
when it takes too long; the engine goes on meanwhile. It is started by the first of them and kept for the next.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections.abc import Callable, Mapping
from typing import Any

from draftscope.engine.backend import ChatTemplate
from draftscope.engine.codec import as_plain
from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.output_format import bad_schema
from draftscope.engine.protocol import ChatMessage
from draftscope.engine.spawning import child_environment, python_command

START_LIMIT_S = 60.0
"""For that process to import what it needs; a second is usual."""

RENDER_LIMIT_S = 5.0
"""For one conversation or schema; milliseconds are usual."""

_SIMPLER = "Give the prompt as plain text."
_PLAINER = "Give the prompt as plain text, and a grammar in the place of a JSON schema."


class ChatRenderer:
    """Keeps the template process. All calls come from the engine thread.

    Args:
        on_ready: called from a thread of a ``Rendering`` when it is over.
        render_limit_s: how long one conversation or schema may take.
    """

    def __init__(self, on_ready: Callable[[], None], render_limit_s: float = RENDER_LIMIT_S) -> None:
        self._on_ready = on_ready
        self._limit_s = render_limit_s
        self._process: _TemplateProcess | None = None
        self._last: Rendering | None = None

    def render(
        self,
        template: ChatTemplate | None,
        conversations: Mapping[int, tuple[ChatMessage, ...]],
        schemas: Mapping[int, str] | None = None,
        names: Mapping[int, str] | None = None,
    ) -> Rendering:
        """Start rendering the conversations, and making grammars of the schemas; one ``Rendering`` at a time.

        Args:
            template: needed for conversations only.
            conversations, schemas: by a number of the caller's.
            names: whose they are, in words, by the same number; ``slot N`` where there is none.

        Raises:
            EngineError: the template process could not be started.
        """
        if self._last is not None:
            self._last.join()
        if self._process is None or not self._process.is_alive:
            self._drop_process()
            self._process = _TemplateProcess()
        self._last = Rendering(
            self._process, template, conversations, schemas or {}, names or {}, self._limit_s, self._on_ready
        )
        return self._last

    def close(self) -> None:
        """End the template process; a rendering in progress fails."""
        self._drop_process()
        if self._last is not None:
            self._last.join()

    def _drop_process(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None


class Rendering:
    """Conversations that are being rendered, and schemas that become grammars."""

    def __init__(
        self,
        process: _TemplateProcess,
        template: ChatTemplate | None,
        conversations: Mapping[int, tuple[ChatMessage, ...]],
        schemas: Mapping[int, str],
        names: Mapping[int, str],
        limit_s: float,
        on_ready: Callable[[], None],
    ) -> None:
        self._process = process
        self._template = template
        self._conversations = conversations
        self._schemas = schemas
        self._names = names
        self._limit_s = limit_s
        self._on_ready = on_ready
        self._texts: dict[int, str] = {}
        self.grammars: dict[int, str] = {}
        """What the schemas became, by their numbers; complete once ``result`` has returned."""
        self._error: EngineError | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="draftscope-chat", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether ``result`` is there."""
        return self._is_over.is_set()

    def result(self) -> dict[int, str]:
        """The texts by the numbers of their conversations; call it once ``is_over``.

        Raises:
            EngineError: BAD_PROMPT when the template failed, refused or took too long; BAD_GRAMMAR when the converter
                did with a schema; ENGINE_MISSING when there is nothing to do either with.
        """
        if self._error is not None:
            raise self._error
        return self._texts

    def abandon(self) -> None:
        """The result is not wanted any more; a template that still runs is killed with its process."""
        if not self.is_over:
            self._process.kill()

    def join(self) -> None:
        """Wait for the thread, which ends soon after the process at the latest."""
        self._thread.join()

    def _work(self) -> None:
        try:
            for key, messages in self._conversations.items():
                request = as_plain(self._template) | {"messages": as_plain(messages), "limit_s": self._limit_s}
                self._texts[key] = _rendered(self._process.ask(request, self._limit_s), self._limit_s)
            for key, schema in self._schemas.items():
                request = {"schema": schema, "limit_s": self._limit_s}
                name = self._names.get(key, f"slot {key}")
                self.grammars[key] = _converted(self._process.ask(request, self._limit_s), name, self._limit_s)
        except EngineError as error:
            self._error = error
        except Exception as error:
            self._error = EngineError(ErrorCode.INTERNAL, f"The conversation could not be rendered: {error}.")
        self._is_over.set()
        self._on_ready()


def _rendered(reply: dict[str, Any] | None, limit_s: float) -> str:
    if reply is None:
        what = f"The model's chat template was stopped: it took more than {limit_s:g} s, or all memory it may have."
        raise EngineError(ErrorCode.BAD_PROMPT, what, _SIMPLER)
    if "error" in reply:
        what = f"The model's chat template did not accept the messages: {reply['error']}."
        raise EngineError(ErrorCode.BAD_PROMPT, what, f"Change the roles or their order. {_SIMPLER}")
    return str(reply["text"])


def _converted(reply: dict[str, Any] | None, name: str, limit_s: float) -> str:
    if reply is None:
        raise bad_schema(name, f"making a grammar of it took more than {limit_s:g} s, or all memory it may have")
    if "error" in reply:
        raise bad_schema(name, str(reply["error"]))
    return str(reply["text"])


class _TemplateProcess:
    """The process, and its line-by-line conversation."""

    def __init__(self) -> None:
        command = python_command("draftscope.engine.chat_process")
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        try:
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere, env=child_environment())
        except OSError as error:
            what = f"The process for chat templates and JSON schemas could not be started: {error}."
            raise EngineError(ErrorCode.OUT_OF_MEMORY, what, _PLAINER) from error
        self._is_ready = False
        self._is_over = False

    @property
    def is_alive(self) -> bool:
        return not self._is_over and self._process.poll() is None

    def ask(self, request: dict[str, Any], limit_s: float) -> dict[str, Any] | None:
        """The reply; None when the process ended or had to be killed. Raises EngineError where it never starts."""
        if not self._is_ready:
            first = self._read_line(START_LIMIT_S)
            if first is None:
                what = "The process for chat templates and JSON schemas did not start."
                raise EngineError(ErrorCode.INTERNAL, what, _PLAINER)
            if "missing" in first:
                needed = "Chat templates and JSON schemas need llama-cpp-python"
                what = f"{needed}, which cannot be loaded: {first['missing']}."
                raise EngineError(ErrorCode.ENGINE_MISSING, what, _PLAINER)
            self._is_ready = True
        return self._exchange(request, limit_s)

    def _exchange(self, request: dict[str, Any], limit_s: float) -> dict[str, Any] | None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            return None
        return self._read_line(limit_s)

    def _read_line(self, limit_s: float) -> dict[str, Any] | None:
        """The next line of the process, or None when it ended or had to be killed at the limit."""
        assert self._process.stdout is not None
        timer = threading.Timer(limit_s, self.kill)
        timer.daemon = True
        timer.start()
        try:
            line = self._process.stdout.readline()
            self._is_over |= not line.endswith(b"\n")
            return None if self._is_over else json.loads(line)
        except (OSError, ValueError):
            return None
        finally:
            timer.cancel()
            timer.join()

    def kill(self) -> None:
        """End the process; what is read from it ends too. Any thread."""
        self._is_over = True
        self._process.kill()

    def close(self) -> None:
        """End the process and collect it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what was left in the buffer has no reader any more
                    pipe.close()
