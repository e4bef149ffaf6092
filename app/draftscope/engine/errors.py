"""Errors of the engine: one exception, its machine-readable code, and what to do.

Every failure that a user can meet is an ``EngineError``. Its message is a sentence that says what happened and to what;
the hint says what to do. The same three fields cross the process edge and appear in ``--json`` output.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ErrorCode(StrEnum):
    """What kind of failure it is; stable, since scripts test for it."""

    BAD_FILE = "bad_file"
    UNSUPPORTED_MODEL = "unsupported_model"
    OUT_OF_MEMORY = "out_of_memory"
    BAD_SETTINGS = "bad_settings"
    BAD_PROMPT = "bad_prompt"
    BAD_GRAMMAR = "bad_grammar"
    NOT_LOADED = "not_loaded"
    BUSY = "busy"
    BAD_STATE = "bad_state"
    UNSUPPORTED = "unsupported"
    CANCELLED = "cancelled"
    ENGINE_DIED = "engine_died"
    ENGINE_MISSING = "engine_missing"
    DECODE_FAILED = "decode_failed"
    RPC_FAILED = "rpc_failed"
    PROTOCOL = "protocol"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """An error as data: what crosses the process edge."""

    code: ErrorCode
    message: str
    hint: str = ""


class EngineError(Exception):
    """A failure with its code, a sentence, and a hint what to do (may be empty)."""

    def __init__(self, code: ErrorCode, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint

    def report(self) -> ErrorReport:
        """The error as data."""
        return ErrorReport(self.code, self.message, self.hint)

    @classmethod
    def from_report(cls, report: ErrorReport) -> EngineError:
        """The exception for a report that came over the process edge."""
        return cls(report.code, report.message, report.hint)
