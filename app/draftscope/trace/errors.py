"""What can go wrong with trace files and exports."""

from __future__ import annotations


class TraceError(Exception):
    """A trace file cannot be read or written. The message says what is wrong with which file, and what to do."""


class TraceCancelled(Exception):
    """The user ended the reading of a file or an export; what was written so far is gone."""
