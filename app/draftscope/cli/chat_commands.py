"""The commands of a chat: their names and what they do, as one table; and how a line is taken apart."""

from __future__ import annotations

from typing import NamedTuple

from draftscope.cli.failure import UsageError


class ChatCommand(NamedTuple):
    """A row. ``argument`` is '' where there is none."""

    name: str
    argument: str
    does: str


CHAT_COMMANDS = (
    ChatCommand("regenerate", "", "answer the last message anew"),
    ChatCommand("edit", "N [TEXT]", "write the N-th message anew and go on from there"),
    ChatCommand("back", "", "bring back what an edit or a new answer replaced"),
    ChatCommand("delete", "", "delete the last message and its answer"),
    ChatCommand("clear", "", "begin anew; the system prompt stays"),
    ChatCommand("system", "[TEXT|-]", "show the system prompt, or set it; - for none"),
    ChatCommand("show", "", "show the conversation, its messages numbered"),
    ChatCommand("save", "FILE", "save the conversation as JSON"),
    ChatCommand("load", "FILE", "go on with a saved conversation"),
    ChatCommand("stats", "", "figures of every answer"),
    ChatCommand("help", "", "list these"),
    ChatCommand("quit", "", "end the program"),
)
"""Every command, in the order of the help."""


def _list() -> str:
    rows = [(f"/{row.name} {row.argument}".rstrip(), row.does) for row in CHAT_COMMANDS]
    width = max(len(call) for call, _ in rows)
    return "\n".join(f"  {call:{width}}  {does}" for call, does in rows)


COMMAND_LIST = f"commands (a message that begins with a slash is written with two):\n{_list()}"
"""The help."""


class Asked(NamedTuple):
    """A line: a command with its argument, or a message, whose command is ''."""

    command: str
    argument: str


def parse_line(line: str) -> Asked:
    """Take a line apart.

    Raises:
        UsageError: there is no such command, or it lacks its argument.
    """
    if not line.startswith("/"):
        return Asked("", line)
    if line.startswith("//"):
        return Asked("", line[1:])
    name, _, argument = line[1:].partition(" ")
    row = next((row for row in CHAT_COMMANDS if row.name == name.strip()), None)
    if row is None:
        raise UsageError(f"There is no command /{name.strip()}.", "/help lists the commands.")
    if argument.strip() and not row.argument:
        raise UsageError(f"/{row.name} takes no argument.", "/help lists the commands.")
    if not argument.strip() and row.argument and not row.argument.startswith("["):
        raise UsageError(f"/{row.name} needs {row.argument}.", "/help lists the commands.")
    return Asked(row.name, argument.strip())


def numbered(argument: str) -> tuple[int, str]:
    """The number from 1 and the text of ``N TEXT``.

    Raises:
        UsageError: it does not begin with such a number.
    """
    number, _, text = argument.partition(" ")
    if not number.isascii() or not number.isdigit() or int(number) < 1:
        raise UsageError(f"{number!r} is no message's number.", "/show numbers the messages.")
    return int(number), text.strip()
