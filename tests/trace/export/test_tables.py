"""CSV and Parquet: the same tables, read back by the standard library and by pyarrow."""

import csv
import itertools
import json
import math
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from draftscope.engine.events import KINDS, Kind, Mechanism, Operation, Origin, Reuse
from draftscope.engine.probes import PROBE_DTYPE, Fault
from draftscope.trace.errors import TraceCancelled, TraceError
from draftscope.trace.export.csv_folder import NAMES, export_csv
from draftscope.trace.export.layout import PROBE
from draftscope.trace.export.parquet import export_parquet, why_no_parquet
from draftscope.trace.export.tables import TABLES
from draftscope.trace.trace import Trace
from tests.trace.export.made_probes import with_probes
from tests.trace.synthetic import make_many, make_records, make_trace, record


def read_csv(folder, table):
    with (folder / f"{table}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def read_parquet(folder, table):
    return pq.read_table(folder / f"{table}.parquet").to_pylist()


def exported(trace, folder, **options):
    """Both folders of one trace."""
    export_csv(trace, folder / "csv", **options)
    export_parquet(trace, folder / "parquet", **options)
    return folder / "csv", folder / "parquet"


def as_text(value):
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)


@pytest.mark.parametrize("with_text", [True, False])
def test_csv_and_parquet_hold_the_same_rows(tmp_path, with_text):
    in_csv, in_parquet = exported(with_probes(make_trace(make_records(60))), tmp_path, with_text=with_text)
    for table in TABLES:
        rows = [{name: as_text(value) for name, value in row.items()} for row in read_parquet(in_parquet, table.name)]
        assert read_csv(in_csv, table.name) == rows
        assert rows or table.name == "rows"


def test_every_record_is_a_row_of_one_table(tmp_path):
    trace = with_probes(make_trace(make_records(60)))
    export_parquet(trace, tmp_path / "x")
    counts = {table.name: pq.read_metadata(tmp_path / "x" / f"{table.name}.parquet").num_rows for table in TABLES}
    assert sum(counts.values()) == trace.store.n_records + 3
    assert counts["decodes"] + counts["shares"] == len(trace.store.kind(Kind.SPAN))
    assert counts["rounds"] == len(trace.store.kind(Kind.ROUND)) == 240
    assert counts["probes"] == 3


def test_all_tables_that_were_asked_for_are_there():
    names = {table.name for table in TABLES}
    assert names >= {
        "rounds", "decodes", "checkpoints", "restores", "tokens", "slots", "operations", "fallbacks", "probes",
    }  # fmt: skip
    assert {table.kind for table in TABLES} == {*Kind, PROBE}


def test_a_row_says_in_words_what_the_record_says_in_numbers(tmp_path):
    records = np.concatenate([
        record(Kind.TOKEN, t_start_ns=7, slot=1, code=Origin.REJECTED, position=9, token=101, n=2, m=100, value=0.25),
        record(Kind.TOKEN, slot=1, code=Origin.SAMPLED, token=103, m=-1),
        record(Kind.OPERATION, code=Operation.SUBMIT, m=Reuse.KEPT, n=4, position=20, round=-1),
        record(Kind.FALLBACK, code=99, n=Mechanism.HOST, m=Mechanism.NONE),
        record(Kind.ROW, code=2, position=571, n=592, m=3),
    ])  # fmt: skip
    folder, _ = exported(make_trace(records), tmp_path)
    rejected, sampled = read_csv(folder, "tokens")
    assert rejected == {
        "sequence": "0", "t_start_ns": "7", "duration_ns": "0", "round": "0", "slot": "1", "origin": "rejected",
        "position": "9", "draft_position": "2", "probability": "0.25", "token": "101", "text": " cat", "chosen": "100",
        "chosen_text": " the",
    }  # fmt: skip
    assert (sampled["probability"], sampled["text"], sampled["chosen_text"]) == ("", "\N{REPLACEMENT CHARACTER}", "")
    (operation,) = read_csv(folder, "operations")
    assert (operation["operation"], operation["reuse"], operation["n_common"]) == ("submit", "kept", "")
    (fallback,) = read_csv(folder, "fallbacks")
    assert (fallback["reason"], fallback["asked"], fallback["used"]) == ("unknown 99", "host", "none")
    (row,) = read_csv(folder, "rows")
    assert (row["position"], row["position_found"], row["fault"]) == ("571", "592", str(Fault.ZERO_ROW))


def test_units_and_meanings_are_told(tmp_path):
    in_csv, in_parquet = exported(with_probes(make_trace(make_records(5))), tmp_path)
    described = {(row["table"], row["column"]): row for row in read_csv(in_csv, "columns")}
    assert described["rounds", "t_start_ns"]["unit"] == "ns"
    assert described["rounds", "tokens_per_second"]["unit"] == "1/s"
    assert described["checkpoints", "size_bytes"] == {
        "table": "checkpoints", "column": "size_bytes", "type": "int64", "unit": "B",
        "meaning": KINDS[Kind.SAVE].size_bytes,
    }  # fmt: skip
    assert described["rounds", "mechanism"]["meaning"].endswith(": none, kv_removal, rollback, cow, device, host")
    assert all(row["meaning"] for row in described.values())
    for table in TABLES:
        schema = pq.read_schema(in_parquet / f"{table.name}.parquet")
        assert [(table.name, field.name) for field in schema] == [key for key in described if key[0] == table.name]
        assert all(field.metadata[b"meaning"] for field in schema)
        assert json.loads(schema.metadata[b"draftscope"])["header"]["program"] == "draftscope test"
    assert json.loads((in_csv / "run.json").read_text())["definitions"]


def test_probes_have_all_their_columns(tmp_path):
    _, folder = exported(with_probes(make_trace(make_records(5))), tmp_path)
    rows = read_parquet(folder, "probes")
    assert list(rows[0]) == list(PROBE_DTYPE.names)
    assert [row["restored_max_abs"] for row in rows] == [0, 0.25, 0.5]
    assert rows[0]["without_rms"] is None
    assert (rows[0]["level"], rows[0]["kind"], rows[0]["state_status"]) == ("state", "rejection", "equal")


def test_without_text_neither_texts_nor_token_ids_are_in_the_files(tmp_path):
    in_csv, in_parquet = exported(with_probes(make_trace()), tmp_path, with_text=False)
    text = "".join(path.read_text() for path in in_csv.iterdir())
    for secret in ("secret", " sat", "END", "chosen", "saved_top,"):
        assert secret not in text
    names = {name for path in in_parquet.iterdir() for name in pq.read_schema(path).names}
    assert not names & {"token", "text", "chosen", "chosen_text", "saved_top", "restored_top", "without_top"}
    assert b"secret" not in b"".join(path.read_bytes() for path in in_parquet.iterdir())


@pytest.mark.parametrize("export", [export_csv, export_parquet])
def test_an_earlier_export_is_replaced_at_the_end_and_other_folders_are_refused(tmp_path, export):
    folder = tmp_path / "x"
    export(make_trace(make_records(3)), folder)
    before = {path.name: path.stat().st_size for path in folder.iterdir()}
    with pytest.raises(TraceCancelled):
        export(make_trace(make_many(60_000)), folder, cancelled=itertools.cycle([False] * 8 + [True]).__next__)
    assert {path.name: path.stat().st_size for path in folder.iterdir()} == before
    assert list(tmp_path.iterdir()) == [folder]
    export(make_trace(make_records(30)), folder)
    assert {path.name for path in folder.iterdir()} == set(before)
    assert sum(path.stat().st_size for path in folder.iterdir()) > sum(before.values())
    (folder / "letter.txt").write_text("Dear reader")
    with pytest.raises(FileExistsError, match=r"letter\.txt"):
        export(make_trace(), folder)
    with pytest.raises(NotADirectoryError):
        export(make_trace(), folder / "letter.txt")
    assert (folder / "letter.txt").read_text() == "Dear reader"


@pytest.mark.parametrize("export", [export_csv, export_parquet])
def test_an_empty_trace_has_all_tables_and_progress_rises_to_one(tmp_path, export):
    fractions = []
    export(Trace(), tmp_path / "empty", progress=fractions.append)
    assert len(list((tmp_path / "empty").iterdir())) >= len(TABLES)
    export(make_trace(make_many(60_000)), tmp_path / "x", progress=fractions.append)
    rising = fractions[fractions.index(1) + 1 :][len(TABLES) :]
    assert rising == sorted(rising)
    assert rising[-1] == 1


def test_a_failed_export_leaves_nothing(tmp_path):
    trace = make_trace()
    trace.header["path"] = object()
    with pytest.raises(TypeError):
        export_csv(trace, tmp_path / "x")
    with pytest.raises(FileNotFoundError):
        export_csv(make_trace(), tmp_path / "missing" / "x")
    assert list(tmp_path.iterdir()) == []


def test_rows_are_made_in_parts(tmp_path, monkeypatch):
    from draftscope.trace.export import csv_folder

    sizes = []
    real = csv_folder._fields
    monkeypatch.setattr(csv_folder, "_fields", lambda values: (sizes.append(len(values.numbers)), real(values))[1])
    export_csv(make_trace(make_many(100_000)), tmp_path / "x")
    assert max(sizes) == 20_000


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    assert why_no_parquet() == ""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install 'draftscope[parquet]'" in why_no_parquet()
    with pytest.raises(TraceError, match="pyarrow"):
        export_parquet(make_trace(), tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_names_of_the_csv_files_are_those_of_the_tables(tmp_path):
    export_csv(make_trace(make_records(3)), tmp_path / "x")
    assert {path.name for path in (tmp_path / "x").iterdir()} == set(NAMES)
    assert not math.isnan(float(read_csv(tmp_path / "x", "rounds")[0]["tokens_per_second"]))
