"""Chat templates come with files that nobody vouches for: whatever one does, the engine gets an answer in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from draftscope.engine import chat_process
from draftscope.engine.backend import ChatTemplate
from draftscope.engine.chat import ChatRenderer
from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.protocol import ChatMessage

HELLO = {0: (ChatMessage("system", "Be kind."), ChatMessage("user", "Hello → ü"))}
LIMIT_S = 1.0


class Room:
    """A renderer, and how a test waits for it."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._ready = threading.Event()
        self.renderer = ChatRenderer(self._ready.set, render_limit_s=limit_s)

    def render(self, source: str, conversations: Mapping[int, tuple[ChatMessage, ...]] = HELLO) -> dict[int, str]:
        self._ready.clear()
        rendering = self.renderer.render(ChatTemplate(source, "<s>", "</s>"), conversations)
        assert self._ready.wait(60)
        assert rendering.is_over
        return rendering.result()


@pytest.fixture
def room() -> Iterator[Room]:
    room = Room()
    yield room
    room.renderer.close()


def test_a_conversation_becomes_a_text(room: Room) -> None:
    source = "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m['content'] }}{{ eos_token }}{% endfor %}"
    source += "{% if add_generation_prompt %}[assistant]{% endif %}"
    assert room.render(source) == {0: "<s>[system] Be kind.</s>[user] Hello → ü</s>[assistant]"}


def test_several_conversations_are_rendered_by_slot(room: Room) -> None:
    conversations = {slot: (ChatMessage("user", f"number {slot}"),) for slot in (3, 1)}
    assert room.render("{{ messages[0].content }}", conversations) == {3: "number 3", 1: "number 1"}


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("{{ raise_exception('Roles must alternate.') }}", "Roles must alternate."),
        ("{% for m in messages %}", "Unexpected end of template"),
        ("{{ nothing.at.all }}", "undefined"),
        ("{{ 1 // 0 }}", "zero"),
        ("{{ messages.__class__.__mro__ }}", "unsafe"),
        ("{% include '/etc/passwd' %}", ""),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "without end"),
    ],
)
def test_a_template_that_fails_says_why(room: Room, source: str, says: str) -> None:
    with pytest.raises(EngineError) as caught:
        room.render(source)
    assert caught.value.code is ErrorCode.BAD_PROMPT
    assert says in caught.value.message
    assert not caught.value.message.endswith("..")
    assert caught.value.hint


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{{ (9 ** (9 ** 9)) % 7 }}",
        "{% set a = namespace(x='ab') %}{% for i in range(64) %}{% set a.x = a.x ~ a.x %}{% endfor %}",
        "{{ 'a' * 100000000000 }}",
        "{{ ('a' * 100000000) | list }}",
    ],
    ids=["loops", "power", "doubling", "long text", "long list"],
)
def test_a_template_without_end_is_stopped_and_the_next_one_is_rendered(room: Room, source: str) -> None:
    room.render("ready")
    started_s = time.monotonic()
    with pytest.raises(EngineError) as caught:
        room.render(source)
    assert caught.value.code is ErrorCode.BAD_PROMPT
    assert time.monotonic() - started_s < LIMIT_S + 2.0
    assert room.render("{{ messages[1].content }}") == {0: "Hello → ü"}


def test_the_process_is_kept_for_the_next_conversation(room: Room) -> None:
    room.render("first")
    started_s = time.monotonic()
    for _ in range(10):
        room.render("next")
    assert time.monotonic() - started_s < 1.0


def test_an_abandoned_conversation_ends_at_once(room: Room) -> None:
    template = ChatTemplate("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "", "")
    rendering = room.renderer.render(template, HELLO)
    time.sleep(0.05)
    started_s = time.monotonic()
    rendering.abandon()
    rendering.join()
    assert time.monotonic() - started_s < LIMIT_S
    assert room.render("next") == {0: "next"}


def test_a_process_that_lacks_llama_cpp_says_so(room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "llama_cpp"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('libllama.so is broken')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(EngineError) as caught:
        room.render("hi")
    assert caught.value.code is ErrorCode.ENGINE_MISSING
    assert "libllama.so is broken" in caught.value.message


def test_a_text_that_no_context_holds_is_refused() -> None:
    room, n = Room(limit_s=30.0), chat_process.MAX_TEXT_BYTES + 1
    with pytest.raises(EngineError, match=f"{n} bytes"):
        room.render(f"{{{{ 'a' * {n} }}}}")
    room.renderer.close()
