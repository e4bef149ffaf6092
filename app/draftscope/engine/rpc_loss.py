"""The end of a connection to an RPC server: libggml ends the whole process, in whatever it was at.

The engine's process is a child of its own for such cases. Its last words name no server, so those that the model was on
are knocked at: the ones where nothing listens any more are lost.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence

from draftscope.engine.errors import EngineError, ErrorCode, ErrorReport
from draftscope.engine.rpc import parse_name

KNOCK_LIMIT_S = 0.4
"""How long the servers may take to let a connection in: the death of an engine is to be told within a second."""

_LAST_WORDS = "ggml-rpc.cpp:"
"""libggml aborts with the place in its source; in that file, every abort of a client is about its server."""


def lost_servers(log_tail: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """The servers that an engine process may have ended of; empty when it was something else.

    Args:
        log_tail: its last log lines.
        names: ``HOST:PORT`` of the servers that it had connections to.
    """
    if not any(_LAST_WORDS in line for line in log_tail):
        return ()
    lets_in: set[str] = set()
    knocks = [threading.Thread(target=_knock, args=(name, lets_in), daemon=True) for name in names]
    if len(names) > 1:
        for knock in knocks:
            knock.start()
        for knock in knocks:
            knock.join(KNOCK_LIMIT_S)
    # All may be there again when they were restarted, or when one only threw the connection away.
    return tuple(name for name in names if name not in lets_in) or tuple(names)


def _knock(name: str, lets_in: set[str]) -> None:
    try:
        socket.create_connection(parse_name(name), timeout=KNOCK_LIMIT_S).close()
    except (OSError, EngineError):
        return
    lets_in.add(name)


def describe_loss(names: Sequence[str], operation: str) -> ErrorReport:
    """The sentence for whoever used the engine. ``operation``: what it was at, '' when idle."""
    which = f"the RPC server {names[0]}" if len(names) == 1 else f"one of the RPC servers {', '.join(names)}"
    during = f" while {operation}" if operation else ""
    return ErrorReport(
        ErrorCode.ENGINE_DIED,
        f"The connection to {which} was lost{during}.",
        "Everything recorded so far is kept. Start the server and load again.",
    )
