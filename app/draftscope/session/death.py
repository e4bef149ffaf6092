"""The end of an engine process in words."""

from __future__ import annotations

import signal

from draftscope.engine.errors import ErrorCode, ErrorReport
from draftscope.engine.protocol import EngineDied
from draftscope.engine.rpc_loss import describe_loss

_MEANINGS = {
    "SIGKILL": "The system does that when memory runs out.",
    "SIGABRT": "llama.cpp does that when one of its own checks fails; the log shows which.",
    "SIGSEGV": "That is a fault in the engine; the log shows what it did last.",
    "SIGBUS": "That is a fault in the engine, or the model file changed while it was open.",
    "SIGILL": "The engine was built for another processor.",
}


def describe_death(death: EngineDied) -> ErrorReport:
    """Say how the engine ended and while doing what, and what is left of the run."""
    if death.lost_servers:
        return describe_loss(death.lost_servers, death.last_operation)
    how = f"ended with exit code {death.exit_code}"
    name = _signal_name(death.signal)
    if death.signal:
        how = f"was ended by {name}"
    during = f" during: {death.last_operation}" if death.last_operation else ""
    means = f" {_MEANINGS[name]}" if name in _MEANINGS else ""
    return ErrorReport(
        ErrorCode.ENGINE_DIED,
        f"The engine process {how}{during}.{means}",
        "Everything recorded until then is kept and can be exported.",
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
