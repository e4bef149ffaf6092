"""Conversations in files: what other programs wrote is read, and what is no conversation is refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from draftscope.engine.dialogue import Dialogue, DialogueError
from draftscope.engine.dialogue_file import MAX_BYTES, load_dialogue, save_dialogue
from tests.engine.test_dialogue import talk, texts


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talk.json"


def test_a_conversation_is_saved_as_messages_and_read_again(path: Path) -> None:
    dialogue = talk("hällo", "ja\n", "日本")
    dialogue.edit_system("Be short.")
    save_dialogue(dialogue, path)
    assert json.loads(path.read_text(encoding="utf-8")) == {
        "messages": [
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": "hällo"},
            {"role": "assistant", "content": "ja\n"},
            {"role": "user", "content": "日本"},
        ]
    }
    again = Dialogue()
    load_dialogue(again, path)
    assert again.messages() == dialogue.messages()
    assert again.prompt() == dialogue.prompt()


def test_a_plain_conversation_is_plain_again(path: Path) -> None:
    save_dialogue(talk("Once ", "upon", is_plain=True), path)
    again = Dialogue()
    load_dialogue(again, path)
    assert again.is_plain
    assert again.prompt().text == "Once upon"


def test_a_bare_list_and_parts_of_text_are_read(path: Path) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    path.write_text(json.dumps([{"role": "user", "content": parts, "name": "me"}]), encoding="utf-8-sig")
    dialogue = Dialogue()
    load_dialogue(dialogue, path)
    assert texts(dialogue) == ["ab"]


def test_what_was_there_before_can_be_brought_back(path: Path) -> None:
    save_dialogue(talk("x"), path)
    dialogue = talk("a", "b")
    load_dialogue(dialogue, path)
    dialogue.bring_back()
    assert texts(dialogue) == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("{}", "no list of messages"),
        ("[]", "no list of messages"),
        ('"hello"', "no list of messages"),
        ('["hello"]', "message 1 needs a role"),
        ('[{"role": "user", "content": "a"}, {"role": "user"}]', "message 2 needs a role"),
        ('[{"role": "user", "content": [{"type": "image_url"}]}]', "no text"),
        ('[{"role": "user", "content": "\\ud800"}]', "half a character"),
    ],
)
def test_what_is_no_conversation_is_refused_and_changes_nothing(path: Path, content: str, reason: str) -> None:
    path.write_text(content)
    dialogue = talk("a", "b")
    with pytest.raises(DialogueError, match=reason):
        load_dialogue(dialogue, path)
    assert texts(dialogue) == ["a", "b"]
    assert dialogue.n_versions == 0


def test_bytes_that_are_no_text_are_refused(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DialogueError, match="not UTF-8"):
        load_dialogue(Dialogue(), path)


def test_a_file_that_is_too_large_is_not_read(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(DialogueError, match="too large"):
        load_dialogue(Dialogue(), path)


def test_a_missing_file_is_told(path: Path) -> None:
    with pytest.raises(DialogueError, match="cannot be read"):
        load_dialogue(Dialogue(), path)


def test_a_file_is_kept_when_the_new_one_cannot_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(DialogueError, match="could not be saved"):
        save_dialogue(talk("a"), folder)
    assert list(tmp_path.iterdir()) == [folder]
    with pytest.raises(DialogueError, match="could not be saved"):
        save_dialogue(talk("a"), tmp_path / "no" / "such.json")


def test_a_place_that_is_no_folder_is_told_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(DialogueError, match=r"could not be saved to .*file.talk\.json: Not a directory"):
        save_dialogue(talk("a"), tmp_path / "file" / "talk.json")
