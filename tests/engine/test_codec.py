"""Messages: what goes in comes out, and what is none is refused with a sentence."""

from __future__ import annotations

import json
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftscope.engine import protocol
from draftscope.engine.codec import ProtocolError, decode, encode
from draftscope.engine.errors import ErrorCode, ErrorReport
from draftscope.engine.protocol import (
    Cancel,
    CatchUp,
    ChatMessage,
    CheckpointMode,
    CommandId,
    ContextSettings,
    Failed,
    Load,
    ModelSettings,
    Pieces,
    Prompt,
    SamplingSettings,
    SlotTask,
    Submit,
)

SUBMIT = Submit(
    CommandId(3),
    (
        SlotTask(0, Prompt(text="a\nb → ü"), SamplingSettings(temperature=0), stop=("x", "y")),
        SlotTask(1, Prompt(messages=(ChatMessage("user", "hi"),)), ignore_eos=True),
        SlotTask(2, Prompt(tokens=(1, 2, 3))),
    ),
)
LOAD = Load(CommandId(1), ModelSettings("m.gguf", devices=("CPU",)), ContextSettings(catch_up=CatchUp.ALONE))
MESSAGES = [SUBMIT, LOAD, Cancel(CommandId(2), (0, 3)), Pieces({5: b"\xff\x00", 300: b" of"})]
MESSAGES.append(Failed(CommandId(9), ErrorReport(ErrorCode.BUSY, "Slot 0 is busy.", "Wait.")))


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_comes_back_as_it_was(message: protocol.Message) -> None:
    assert decode(encode(message)) == message


def test_a_message_is_one_line() -> None:
    assert b"\n" not in encode(SUBMIT)


def test_every_command_is_answered_by_its_id() -> None:
    for command in typing.get_args(protocol.Command):
        assert typing.get_type_hints(command)["id"] is CommandId
    for closing in typing.get_args(protocol.Closing):
        assert typing.get_type_hints(closing)["command"] is CommandId


def test_settings_that_a_message_leaves_out_have_their_defaults() -> None:
    fields = {"type": "Load", "id": 1, "model": {"path": "a"}, "context": {"checkpoint": "host"}}
    message = decode(json.dumps(fields).encode())
    assert message == Load(CommandId(1), ModelSettings("a"), ContextSettings(checkpoint=CheckpointMode.HOST))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b"null",
        b"\xff\xfe",
        b'{"id": 1}',
        b'{"type": "Prompt"}',
        b'{"type": ["Load"]}',
        b'{"type": "Unload"}',
        b'{"type": "Unload", "id": "1"}',
        b'{"type": "Unload", "id": true}',
        b'{"type": "Unload", "id": 1, "more": 2}',
        b'{"type": "Load", "id": 1, "model": 3, "context": {}}',
        b'{"type": "Load", "id": 1, "model": {"path": "a"}, "context": {"checkpoint": "best"}}',
        b'{"type": "Pieces", "pieces": {"x": "AA=="}}',
        b'{"type": "Pieces", "pieces": {"1": "not base64"}}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"\.$"):
        decode(data)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner), max_leaves=5))
def test_any_field_is_taken_or_refused(value: object) -> None:
    data = json.dumps({"type": "Cancel", "id": 1, "slots": value}).encode()
    try:
        message = decode(data)
    except ProtocolError:
        return
    assert decode(encode(message)) == message
