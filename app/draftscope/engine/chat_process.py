"""The process that runs chat templates, and the converter of JSON schemas: JSON lines in, JSON lines out, one each.

It limits itself as far as the system lets it: memory, and the time of a request (so that it ends even when nobody
is left to kill it).
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

from draftscope.engine.json_schema import SchemaError, to_gbnf
from draftscope.engine.spawning import die_with_parent, take_answer_channel

EXTRA_BYTES = 512 << 20
"""Address space that a template may use beyond what the interpreter and llama_cpp occupy."""

MAX_TEXT_BYTES = 16 << 20
"""Longest text that is worth sending: no context holds more."""


def main(_arguments: list[str]) -> None:
    """Serve until standard input ends. The first line says ``{"ready": true}``, or ``{"missing": why}``."""
    answers = os.fdopen(take_answer_channel(), "wb", buffering=0)
    die_with_parent()
    try:
        import llama_cpp.llama_grammar  # noqa: F401 what json_schema needs, before memory is limited
        from llama_cpp.llama_chat_format import Jinja2ChatFormatter
    except Exception as error:
        _send(answers, {"missing": str(error)})
        return
    _limit_memory()
    _send(answers, {"ready": True})
    for line in sys.stdin.buffer:
        request = json.loads(line)
        _limit_time(request["limit_s"])
        reply = _convert(request["schema"]) if "schema" in request else _render(Jinja2ChatFormatter, request)
        _limit_time(0)
        _send(answers, reply)


def _render(formatter: Any, request: dict[str, Any]) -> dict[str, Any]:
    try:
        template = formatter(template=request["template"], eos_token=request["eos"], bos_token=request["bos"])
        text = template(messages=request["messages"]).prompt
        n_bytes = len(text.encode())
    except RecursionError:
        return {"error": "it calls itself without end"}
    except MemoryError:
        return {"error": "it asked for more memory than it may have"}
    except Exception as error:  # whatever a template can raise
        return {"error": str(error).rstrip(".") or type(error).__name__}
    if n_bytes > MAX_TEXT_BYTES:
        return {"error": f"it made a text of {n_bytes} bytes, and no context holds that"}
    return {"text": text}


def _convert(schema: str) -> dict[str, Any]:
    try:
        return {"text": to_gbnf(schema)}
    except SchemaError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": "making a grammar of it took more memory than that may"}


def _send(answers: Any, reply: dict[str, Any]) -> None:
    data = memoryview(json.dumps(reply).encode() + b"\n")
    while data:
        data = data[answers.write(data) :]


def _limit_memory() -> None:
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = pages * resource.getpagesize() + EXTRA_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    except (ImportError, OSError, ValueError):
        pass  # not Linux: the time limit alone holds


def _limit_time(limit_s: float) -> None:
    if sys.platform != "win32":
        import signal

        signal.alarm(math.ceil(limit_s) + 1 if limit_s else 0)
