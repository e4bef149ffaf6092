"""Files that earlier versions wrote: they open, hold what was recorded, and stay as they are."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from draftscope.engine.events import Kind
from draftscope.trace.tracefile import TraceError, read_facts, read_trace
from draftscope.trace.tracefile.reader import CUT_OFF
from tests.trace.files import alter
from tests.trace.synthetic import PIECES

OLD = Path(__file__).parent / "old_files"
VERSIONS = (1, 2)


def copied(tmp_path: Path, name: str) -> Path:
    for file in OLD.glob(f"{name}.dscope*"):
        shutil.copy(file, tmp_path)
    return tmp_path / f"{name}.dscope"


@pytest.mark.parametrize("version", VERSIONS)
def test_an_old_file_holds_what_was_recorded_and_is_not_rewritten(tmp_path, version):
    path = copied(tmp_path, f"v{version}")
    before, expected = path.read_bytes(), json.loads((OLD / f"v{version}.json").read_text())
    trace = read_trace(path)
    records = trace.store.in_order()
    assert hashlib.sha256(records.tobytes()).hexdigest() == expected["sha256"]
    assert {kind: int((records["kind"] == Kind[kind]).sum()) for kind in expected["by_kind"]} == expected["by_kind"]
    assert trace.header["settings"]["prompts"] == [{"text": "a secret prompt"}]
    assert trace.header["settings"]["stop"] == ["END"]
    assert trace.results[0]["text"] == "a secret text"
    assert trace.results[0]["prompt_content"] == {"text": "a secret prompt"}
    assert dict(trace.pieces.items()) == PIECES
    assert trace.is_complete and trace.missing == []
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_old_file_without_text_has_none_now_either(tmp_path, version):
    trace = read_trace(copied(tmp_path, f"v{version}-no-text"))
    assert trace.store.n_records == json.loads((OLD / f"v{version}.json").read_text())["n_records"]
    assert set(trace.store.kind(Kind.TOKEN)["token"].tolist()) == {-1}
    assert len(trace.pieces) == 0
    assert "text" not in trace.results[0] and "prompts" not in trace.header["settings"]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_old_recording_that_was_cut_off_opens_with_all_that_lies_beside_it(tmp_path, version):
    path = copied(tmp_path, f"v{version}-cut-off")
    before = {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()}
    trace = read_trace(path)
    assert trace.store.n_records == json.loads((OLD / f"v{version}.json").read_text())["n_records"]
    assert not trace.is_complete and trace.missing == [CUT_OFF]
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == before


@pytest.mark.parametrize("version", VERSIONS)
def test_the_facts_of_an_old_file_are_told(tmp_path, version):
    facts = read_facts(copied(tmp_path, f"v{version}"))
    assert (facts.problem, facts.model, facts.n_slots, facts.is_complete) == ("", "old.gguf", 4, True)
    assert facts.n_records == json.loads((OLD / f"v{version}.json").read_text())["n_records"]
    assert 0 < facts.n_tokens < 222 and facts.duration_s > 0


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE records SET slot = 70000 WHERE rowid = 5",
        "UPDATE records SET n = 'many' WHERE rowid = 5",
        "UPDATE records SET position = NULL WHERE rowid = 5",
        "UPDATE records SET position = 0.5 WHERE rowid = 5",
        "UPDATE records SET value = 'fast' WHERE rowid = 5",
    ],
)
def test_records_of_an_old_file_that_cannot_be_are_named(tmp_path, statement):
    trace = read_trace(alter(copied(tmp_path, "v2"), statement))
    assert trace.missing == ["1 record holds something that is not possible: left out."]
    assert trace.store.n_records == 225
    assert trace.header["engine"] == "engine of old"


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ("DROP TABLE records", "no table records"),
        ("UPDATE results SET value = '[1]'", "a result is no object"),
        ("UPDATE run SET value = '{not json'", "damaged"),
    ],
)
def test_an_old_file_that_is_none_is_refused(tmp_path, statement, word):
    with pytest.raises(TraceError, match=word):
        read_trace(alter(copied(tmp_path, "v2"), "DROP VIEW spans", statement))
