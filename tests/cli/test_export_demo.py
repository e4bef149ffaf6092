"""The exports of a real run, on the native engine and the bundled model, opened by their readers."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from draftscope.cli import main
from draftscope.cli.failure import ExitCode
from draftscope.engine.events import ENGINE_TRACK, Kind, Phase
from draftscope.trace.trace import Trace
from draftscope.trace.tracefile import read_trace
from tests.trace.export.perfetto_reader import read_perfetto
from tests.trace.export.test_perfetto import check_agreement


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of a run of two slots with host checkpoints, so that there are saves, restores and replays."""
    path = tmp_path_factory.mktemp("demo") / "run.dscope"
    options = ["--slots", "2", "--max-tokens", "48", "--temp", "0", "--checkpoint", "host", "--trace", str(path)]
    assert main.run(["run", "demo", "--json", *options]) == ExitCode.DONE
    return path


@pytest.fixture
def exported(run: Path, tmp_path: Path) -> Any:
    """Export the run to a format and return where it is."""

    def export(form: str, name: str) -> Path:
        assert main.run(["export", str(run), "--to", form, "-o", str(tmp_path / name)]) == ExitCode.DONE
        return tmp_path / name

    return export


@pytest.fixture
def trace(run: Path) -> Trace:
    return read_trace(run)


def test_the_chrome_and_the_perfetto_file_of_a_run_agree_span_by_span(trace: Trace, tmp_path: Path) -> None:
    found = check_agreement(trace, tmp_path)
    assert len(found.slices) > 300
    assert found.arrow_starts


def test_perfettos_protos_read_the_rounds_of_a_run(trace: Trace, exported: Any) -> None:
    found = read_perfetto(exported("perfetto", "run.pftrace"))
    rounds = trace.store.kind(Kind.ROUND)
    told = [one.arguments for one in found.slices if one.category == "round"]
    assert len(told) == len(rounds)
    assert sum(one["draft_n_accepted"] for one in told) == int(rounds["m"].sum())
    decodes = [one for one in found.slices if one.track.startswith("engine") and one.name == "verify"]
    spans = trace.store.kind(Kind.SPAN)
    assert len(decodes) == int(((spans["slot"] == ENGINE_TRACK) & (spans["code"] == Phase.VERIFY)).sum())
    text = "".join(token["text"] for one in told for token in one["tokens"] if token["origin"] != "rejected")
    assert len(text) > 100
    assert found.about["header"]["settings"]


def test_positions_in_the_counters_are_those_of_the_slots(trace: Trace, exported: Any) -> None:
    found = read_perfetto(exported("perfetto", "run.pftrace"))
    rounds = trace.store.kind(Kind.ROUND)
    for slot in (0, 1):
        target = [value for _, value in found.counters[f"slot {slot}: target position"]]
        most = int(rounds["position"][rounds["slot"] == slot].max())  # of the longest of the slot's tasks
        # The draft that was decoded last may reach beyond what was accepted of it.
        assert most - 1 <= max(target) <= most + 3
    assert max(value for _, value in found.counters["checkpoints in host memory"]) > 100_000


def test_json_reads_the_chrome_file_of_a_run(trace: Trace, exported: Any) -> None:
    document = json.loads(exported("chrome", "run.json").read_text())
    kinds = [event.get("cat") for event in document["traceEvents"] if event["ph"] == "X"]
    for kind in (Kind.ROUND, Kind.SAVE, Kind.RESTORE):
        assert kinds.count(kind.name.lower()) == len(trace.store.kind(kind)) > 0


def test_the_standard_library_reads_the_csv_files_of_a_run(trace: Trace, exported: Any) -> None:
    folder = exported("csv", "tables")
    with (folder / "rounds.csv").open(newline="") as file:
        rounds = list(csv.DictReader(file))
    records = trace.store.kind(Kind.ROUND)
    assert [int(row["draft_n_accepted"]) for row in rounds] == records["m"].tolist()
    assert {row["mechanism"] for row in rounds} == {"host"}
    results = json.loads((folder / "run.json").read_text())["results"]
    with (folder / "tokens.csv").open(newline="") as file:
        tokens = [row for row in csv.DictReader(file) if row["origin"] != "rejected"]
    for slot in (0, 1):
        of_tasks = [token for result in results if result["slot"] == slot for token in result["tokens"]]
        assert [int(row["token"]) for row in tokens if int(row["slot"]) == slot] == of_tasks


def test_arrow_reads_the_parquet_files_of_a_run(trace: Trace, exported: Any) -> None:
    saves = pq.read_table(exported("parquet", "arrow") / "checkpoints.parquet").to_pydict()
    records = trace.store.kind(Kind.SAVE)
    for name in ("t_start_ns", "duration_ns", "size_bytes", "position"):
        assert saves[name] == records[name].tolist()


def test_numpy_reads_the_npz_file_of_a_run(exported: Any) -> None:
    with np.load(exported("npz", "run.npz"), allow_pickle=False) as arrays:
        assert json.loads(str(arrays["about"]))["n_records"] > 500
        assert len(arrays["probes"]) == 0
