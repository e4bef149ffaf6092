"""The option that names RPC servers, for every command that takes it."""

from __future__ import annotations

import argparse
from typing import Any

from draftscope.engine.errors import EngineError
from draftscope.engine.rpc import parse_name

TRUST = "An RPC server asks nobody who they are: use one only in a network that you trust."
"""What a person has to know before the first use."""


def add_rpc_option(group: Any, text: str) -> None:
    """Declare ``--rpc``, which may be repeated; its value is the list ``rpc``, empty without it."""
    group.add_argument("--rpc", metavar="HOST:PORT", action="append", default=[], type=server_name, help=text)


def server_name(text: str) -> str:
    """The type of the option: the name as it is, if it is one.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    try:
        parse_name(text)
    except EngineError as error:
        raise argparse.ArgumentTypeError(f"{error.message} {error.hint}") from error
    return text
