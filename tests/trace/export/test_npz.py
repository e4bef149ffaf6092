"""NPZ: what probes measured comes back as it was, by numpy alone."""

import itertools
import json

import numpy as np
import pytest

from draftscope.engine.probes import PROBE_DTYPE, ArrayKind
from draftscope.trace.errors import TraceCancelled
from draftscope.trace.export.npz import MEANINGS, export_npz
from tests.trace.export.made_probes import WIDTH, made_arrays, with_probes
from tests.trace.synthetic import make_records, make_trace


def exported(trace, path, **options):
    export_npz(trace, path, **options)
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def test_results_and_arrays_of_every_probe_come_back_bit_for_bit(tmp_path):
    found = exported(with_probes(make_trace()), tmp_path / "x.npz")
    made = made_arrays()
    results = np.concatenate([array.values for array in made if array.kind is ArrayKind.RESULT])
    assert found["probes"].dtype == PROBE_DTYPE
    assert found["probes"].tobytes() == results.tobytes()
    for kind in MEANINGS:
        key = kind.name.lower()
        wanted = [array for array in made if array.kind is kind]
        assert found[f"{key}_t_start_ns"].tolist() == [array.t_start_ns for array in wanted]
        for values, shape, array in zip(found[key], found[f"{key}_shape"], wanted, strict=True):
            part = values[tuple(slice(n) for n in shape)]
            assert part.dtype == array.values.dtype
            np.testing.assert_array_equal(part, array.values)
    assert found["rows"].shape == (3, 3, WIDTH)


def test_what_is_beyond_a_smaller_array_is_nan_or_minus_one(tmp_path):
    found = exported(with_probes(make_trace()), tmp_path / "x.npz")
    assert found["top_logits"].shape == (3, 3, 7)
    assert np.isnan(found["top_logits"][0, :, 5:]).all()
    assert (found["top_tokens"][0, 5:] == -1).all()


def test_every_key_is_explained_inside(tmp_path):
    found = exported(with_probes(make_trace()), tmp_path / "x.npz")
    told = dict(found["keys"].tolist())
    assert set(found) - {"keys"} <= set(told)
    assert {f"probes.{name}" for name in PROBE_DTYPE.names} <= set(told)
    assert all(told.values())
    assert json.loads(str(found["about"]))["n_probes"] == 3


def test_without_text_there_is_nothing_from_which_the_model_tells_tokens(tmp_path):
    found = exported(with_probes(make_trace()), tmp_path / "x.npz", with_text=False)
    assert set(found) == {"keys", "about", "probes", "layers", "layers_t_start_ns", "layers_shape"}
    assert not {"saved_top", "restored_top", "without_top"} & set(found["probes"].dtype.names)
    assert found["probes"]["restored_max_abs"].tolist() == [0, 0.25, 0.5]
    assert "secret" not in str(found["about"])
    assert not any("top" in key and "probes." in key and key.endswith("_top") for key in found["keys"][:, 0].tolist())


def test_a_run_without_probes_is_a_valid_file(tmp_path):
    found = exported(make_trace(make_records(3)), tmp_path / "x.npz")
    assert set(found) == {"keys", "about", "probes"}
    assert len(found["probes"]) == 0


def test_the_same_trace_gives_the_same_bytes(tmp_path):
    export_npz(with_probes(make_trace()), tmp_path / "x.npz")
    export_npz(with_probes(make_trace()), tmp_path / "y.npz")
    assert (tmp_path / "x.npz").read_bytes() == (tmp_path / "y.npz").read_bytes()


def test_progress_rises_to_one_and_a_cancelled_export_leaves_nothing(tmp_path):
    fractions = []
    export_npz(with_probes(make_trace(), 40), tmp_path / "x.npz", progress=fractions.append)
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1
    asked = itertools.count()
    with pytest.raises(TraceCancelled):
        export_npz(with_probes(make_trace(), 40), tmp_path / "y.npz", cancelled=lambda: next(asked) > 20)
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]
