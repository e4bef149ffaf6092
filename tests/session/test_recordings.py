"""The folder of recordings: its share of the disk, pins, and what a killed process left behind."""

import os
from pathlib import Path

import pytest

from draftscope.session.recordings import Recordings
from draftscope.trace.tracefile import TraceError, TraceWriter, read_trace
from tests.trace.files import HEADER, write
from tests.trace.synthetic import make_many, make_records
from tests.trace.test_trace_copies import cut_off

KIB = 1024


def made(folder: Path, name: str, age: int, n_bytes: int) -> Path:
    """A file of a size, so many seconds old."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.dscope"
    path.write_bytes(bytes(n_bytes))
    os.utime(path, (1e9 - age, 1e9 - age))
    return path


def test_the_oldest_go_until_a_new_recording_has_its_eighth_of_the_budget(tmp_path):
    recordings = Recordings(tmp_path / "kept", 800 * KIB)
    for age in range(4):
        made(recordings.folder, f"age-{age}", age, 190 * KIB)
    room = recordings.make_room(recordings.folder / "new.dscope", 0)
    assert [path.stem for path in recordings.paths()] == ["age-0", "age-1", "age-2"]
    assert room == (800 - 3 * 190) * KIB
    assert recordings.make_room(recordings.folder / "new.dscope", room) == (800 - 2 * 190) * KIB
    assert [path.stem for path in recordings.paths()] == ["age-0", "age-1"]


def test_pinned_recordings_stay_also_in_the_next_session_and_may_leave_no_room(tmp_path):
    recordings = Recordings(tmp_path / "kept", 800 * KIB)
    paths = [made(recordings.folder, f"age-{age}", age, 300 * KIB) for age in range(3)]
    recordings.set_pinned(paths[1:], True)
    again = Recordings(tmp_path / "kept", 800 * KIB)
    again.make_room(again.folder / "new.dscope", 0)
    assert again.pinned() == {"age-1.dscope", "age-2.dscope"}
    assert [path.stem for path in again.paths()] == ["age-1", "age-2"]
    again.budget_bytes = 600 * KIB
    with pytest.raises(TraceError, match="pinned recordings take up the 600 KiB"):
        again.make_room(again.folder / "new.dscope", 0)
    again.set_pinned(paths[1:], False)
    assert again.make_room(again.folder / "new.dscope", 0) == 300 * KIB


def test_a_recording_that_goes_on_is_not_removed_for_another(tmp_path):
    recordings = Recordings(tmp_path, 100 * KIB)
    with TraceWriter(tmp_path / "live.dscope", HEADER) as writer:
        writer.append(make_many(20_000))
        recordings.make_room(tmp_path / "new.dscope", 90 * KIB)
        assert writer.path.exists()
    assert read_trace(writer.path).store.n_records >= 20_000


def test_a_list_of_pins_that_was_damaged_pins_nothing(tmp_path):
    recordings = Recordings(tmp_path, KIB)
    for content in ("{not json", '{"a": 1}', "7", "[1, null]"):
        (tmp_path / "pinned.json").write_text(content)
        assert recordings.pinned() == frozenset()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    recordings = Recordings(tmp_path / "file" / "kept", KIB)
    with pytest.raises(TraceError, match="cannot be made"):
        recordings.make_room(recordings.folder / "x.dscope", 0)
    assert recordings.paths() == []
    with pytest.raises(TraceError, match="cannot be kept"):
        recordings.set_pinned([Path("x.dscope")], True)


def test_what_a_killed_process_left_is_found_and_what_lost_nothing_is_made_whole(tmp_path):
    recordings = Recordings(tmp_path, 1 << 30)
    broken = cut_off(tmp_path / "broken.dscope")
    whole = cut_off(tmp_path / "whole.dscope", at_rest=True)
    with TraceWriter(tmp_path / "live.dscope", HEADER) as writer:
        writer.append(make_records(2))
        (found,) = recordings.cut_off()
    assert found.path == broken and found.n_records == len(make_records(20))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [
        "broken.dscope",
        "broken.dscope-lock",
        "broken.dscope-wal",
        "live.dscope",
        "whole.dscope",
    ]
    assert read_trace(whole).is_complete and read_trace(whole).missing == []


def test_a_list_that_nobody_waits_for_any_more_looks_into_no_more_files(tmp_path):
    for name in ("a", "b", "c"):
        write(tmp_path / f"{name}.dscope")
    recordings, looks = Recordings(tmp_path, 1 << 30), iter([False, True, True])
    assert len(recordings.all_facts(lambda: next(looks))) == 1


def test_names_are_told_apart_and_are_names_of_files(tmp_path):
    path = Recordings(tmp_path, KIB).new_path("/models/a b:c*.gguf")
    assert path.parent == tmp_path and path.name.endswith("_a-b-c-.dscope")
