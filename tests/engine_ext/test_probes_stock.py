"""Probes on the unpatched library, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

STOCK_PROBES = """
import json, sys
from pathlib import Path
from draftscope.engine.library import engine_facts
from draftscope.engine.probes import Fault, ProbeLevel
from draftscope.engine.protocol import CheckpointMode
from draftscope.trace.restore_diagnosis import diagnose
from tests.engine_ext.harness import token_prompts
from tests.engine_ext.probe_bench import differing, run_probed, settings_for
found = {"n_patches": len(engine_facts().patches), "modes": {}}
for mode in list(CheckpointMode)[1:]:  # auto may take another way in every load
    settings = settings_for(mode)
    def run(level, fault=Fault.NONE):
        return run_probed(Path(sys.argv[1]), token_prompts(2), settings, level, fault)
    plain, probed = run(ProbeLevel.OFF), run(ProbeLevel.STATE)
    causes = {f.value: diagnose(run(ProbeLevel.STATE, f).store.probes) for f in list(Fault)[1:]}
    found["modes"][mode.value] = {
        "granted": probed.granted,
        "same": probed.tokens == plain.tokens and probed.drafts == plain.drafts,
        "n": len(probed.store.probes),
        "differing": len(differing(probed.store.probes)),
        "rows": bool((probed.rows["n"] == probed.rows["position"]).all()),
        "causes": {name: cause.cause.value if cause else None for name, cause in causes.items()},
    }
print(json.dumps(found))
"""


@pytest.mark.parametrize("name", ["qwen35", "qwen3next", "glm4moe"])
def test_that_probes_change_and_find_nothing_and_name_faults_on_the_stock_library(
    name: str, made_model: Callable[[str], Path]
) -> None:
    site = os.environ.get("DRAFTSCOPE_STOCK_SITE")
    if not site:
        pytest.fail("DRAFTSCOPE_STOCK_SITE is not set: run the tests through 'make test'.")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((site, str(ROOT)))}
    command = [sys.executable, "-c", STOCK_PROBES, str(made_model(name))]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["n_patches"] == 0
    for mode in found["modes"].values():
        assert mode["same"]
        assert mode["n"] > 5
        assert mode["differing"] == 0
        assert mode["rows"]
        for fault, cause in mode["causes"].items():
            assert cause == (None if fault == "skip_layer" and name == "glm4moe" else fault), mode
