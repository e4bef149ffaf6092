"""Our engine against llama-server, built unpatched from the same source package: same model, prompts and settings.

    python -m tests.peers.llama_server MODEL [--slots 1,4] [--repeat 10] [--checkpoint MODE] [--stock] [--json FILE]

MODEL is a GGUF file or ``demo``. The two run in pairs, now the one first and now the other, since the speed of a
machine drifts; *pairs* is the median of the pairs' ratios, which other work on the machine disturbs least. They are
spread over several processes of each engine, since two processes of one program are not equally fast either.

**What is compared** (columns *best* and *median*): tokens a second of generation, all slots together, from the first
token of any slot to the last token of any; the first token of each slot belongs to its prompt and is not counted. Both
engines time this themselves, where they take a token over: the server in its ``timings`` (``prompt_ms`` ends with the
first token, ``predicted_ms`` with the last round), ours in ``ttft_ms`` and ``generate_ms``. So neither HTTP nor JSON
counts against the server, while whatever happens between two rounds counts on both sides: on ours the Python that calls
the core, the records, and the messages of the worker process. All slots start together, from one request there and from
one Submit here, so the times of all slots lie on one clock.

**Beside it** (*wall*): all tokens over the time that the client waits, with prompts, transport and JSON.

Both have the same number of threads, the same processors (``--cpus``), greedy sampling by the shortest chain (at other
temperatures the same chain), and a reader on another core: of HTTP there, of trace records here. Figures of decodes
leave the prompts out; a dash is what an engine does not tell. ``--stock`` runs ours on the library without our patches.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from draftscope.base.paths import demo_model
from draftscope.cli.plan import DEMO
from draftscope.cli.prompts import deal, read_prompts
from draftscope.cli.terminal import table
from draftscope.engine.errors import EngineError
from draftscope.engine.protocol import (
    CheckpointMode,
    ContextSettings,
    ModelReport,
    ModelSettings,
    SamplingSettings,
)
from engine_ext.llama.build_wheel import BuildError
from tests.peers.own_engine import engine
from tests.peers.samples import Sample, Series, n_equal_texts, speed, wall_speed
from tests.peers.server_build import build_server
from tests.peers.server_process import LlamaServer, ServerError, ServerSettings, request_body, serving

_TEXTS = (
    "def main():\n    ",
    "import os\n\nclass Reader:\n    def __init__(self, path):\n",
    "In the beginning God created",
    "for i in range(10):\n",
)
_STOCK_SITE = Path(__file__).resolve().parents[2] / "build" / "stock-site"
_IS_STOCK = "DRAFTSCOPE_PEER_IS_STOCK"

Prompts = list[tuple[int, ...]]


def main() -> int:
    """Measure, print a table, and with ``--json`` write every sample; 1 with a sentence when something failed."""
    options = _options()
    if options.stock and not os.environ.get(_IS_STOCK):
        _restart_on_stock_library()
    if options.cpus:
        os.sched_setaffinity(0, {int(cpu) for cpu in options.cpus.split(",")})
    try:
        server = build_server()
        results = [_compare(server, options, int(n_slots)) for n_slots in options.slots.split(",")]
    except (BuildError, ServerError, EngineError) as error:
        print(error, file=sys.stderr)
        return 1
    print("\n\n".join(as_text(result) for result in results))
    machine = f"{platform.platform()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}"
    print(f"\n{machine}")
    if options.json:
        output = {"machine": machine, "model": options.model, "results": [as_json(result) for result in results]}
        options.json.write_text(json.dumps(output, indent=2) + "\n")
    return 0


def _options() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(prog="python -m tests.peers.llama_server", description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("model", metavar="MODEL", help="a GGUF file with MTP layers, or 'demo' for the bundled model")
    add("--slots", default="1,4", help="numbers of slots, with commas (default 1,4)")
    add("--repeat", type=int, default=10, help="runs of each engine (default 10)")
    add("--processes", type=int, default=2, help="pairs of fresh processes that share the runs (default 2)")
    add("--draft-max", type=int, default=3, help="tokens to draft a round; 0: none (default 3)")
    add("--max-tokens", type=int, default=256, help="tokens to generate a prompt (default 256)")
    add("--temp", type=float, default=0.0, help="temperature (default 0)")
    add("--ctx", type=int, default=1024, help="context of a slot in tokens (default 1024)")
    add("--threads", type=int, default=1, help="threads of each engine (default 1)")
    add("--cpus", help="processors that everything runs on, with commas (default: all)")
    add("--prompts", type=Path, metavar="F.jsonl", help="prompts: texts or token ids, as 'draftscope run' takes them")
    add("--checkpoint", default="auto", choices=[mode.value for mode in CheckpointMode], help="our way back")
    add("--stock", action="store_true", help="our engine on the library without our patches")
    add("--json", type=Path, metavar="FILE", help="write all samples")
    options = parser.parse_args()
    if not 1 <= options.processes <= options.repeat:
        parser.error("--processes needs a number from 1 to that of --repeat")
    return options


def _restart_on_stock_library() -> None:
    site = os.environ.get("DRAFTSCOPE_STOCK_SITE") or str(_STOCK_SITE)
    if not Path(site).is_dir():
        raise SystemExit(f"There is no library without patches in {site}: run 'make .venv/stamps/stock'.")
    path = os.pathsep.join(filter(None, (site, os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "tests.peers.llama_server", *sys.argv[1:]]
    os.execve(sys.executable, command, os.environ | {"PYTHONPATH": path, _IS_STOCK: "1"})


class Comparison:
    """Both engines' samples with one number of slots, in pairs; ``reports`` are what our processes were granted."""

    def __init__(
        self, n_slots: int, reports: Sequence[ModelReport], server: Sequence[Sample], ours: Sequence[Sample]
    ) -> None:
        self.n_slots = n_slots
        self.is_patched = reports[0].is_patched
        # Of several processes: 'auto' measures anew in each.
        self.ways_back = sorted({report.way_back.granted for report in reports})
        self.server = Series("llama-server", tuple(server))
        self.ours = Series("draftscope", tuple(ours))

    @property
    def n_equal_texts(self) -> int:
        """Slots with the same tokens on both, in the last pair."""
        return n_equal_texts(self.server.samples[-1], self.ours.samples[-1])

    def ratios(self) -> dict[str, float]:
        """Ours / theirs, of the compared figure."""
        return {
            "best": self.ours.best(speed) / self.server.best(speed),
            "median": self.ours.median(speed) / self.server.median(speed),
            "pairs": statistics.median(
                speed(ours) / speed(theirs) for ours, theirs in zip(self.ours.samples, self.server.samples, strict=True)
            ),
        }


def _compare(executable: Path, options: argparse.Namespace, n_slots: int) -> Comparison:
    """Runs in turn, spread over several pairs of fresh processes."""
    reports: list[ModelReport] = []
    theirs: list[Sample] = []
    own: list[Sample] = []
    for part in range(options.processes):
        n_before = options.repeat * part // options.processes
        n_pairs = options.repeat * (part + 1) // options.processes - n_before
        reports.append(_run_pairs(executable, options, n_slots, n_pairs, theirs, own))
    return Comparison(n_slots, reports, theirs, own)


def _run_pairs(
    executable: Path, options: argparse.Namespace, n_slots: int, n_pairs: int, theirs: list[Sample], own: list[Sample]
) -> ModelReport:
    """Start both engines, append ``n_pairs`` samples of each, and end them; returns what ours was granted."""
    path = demo_model() if options.model == DEMO else Path(options.model)
    sampling = SamplingSettings(temperature=options.temp)
    body = request_body(sampling, options.max_tokens)
    settings = ServerSettings(path, n_slots, options.ctx, options.threads, options.draft_max)
    with contextlib.ExitStack() as stack:
        log = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "llama-server.log"
        server = stack.enter_context(serving(executable, settings, log))
        model, context = ModelSettings(str(path)), _context(options, n_slots)
        ours = stack.enter_context(engine(model, context, sampling, options.max_tokens))
        prompts = _prompts(options.prompts, server, ours.report, n_slots)
        server.warm_up(prompts, body)
        ours.run(prompts)
        for number in range(n_pairs):
            if number % 2:
                own.append(ours.run(prompts))
            theirs.append(server.run(prompts, body))
            if not number % 2:
                own.append(ours.run(prompts))
        return ours.report


def _context(options: argparse.Namespace, n_slots: int) -> ContextSettings:
    return ContextSettings(
        n_slots=n_slots,
        n_ctx=options.ctx,
        n_draft_max=options.draft_max,
        use_mtp=options.draft_max > 0,
        checkpoint=CheckpointMode(options.checkpoint),
        n_threads=options.threads,
    )


def _prompts(file: Path | None, server: LlamaServer, report: ModelReport, n_slots: int) -> Prompts:
    """Token ids for each slot: both engines get the very same ones."""
    if file is not None:
        given = [prompt.prompt for prompt in read_prompts(file)]
        prompts = [prompt.tokens or server.tokenize(prompt.text) for prompt in given]
    elif report.has_tokenizer:
        prompts = [server.tokenize(text) for text in _TEXTS]
    else:
        n_vocab = min(report.n_vocab, 190)
        prompts = [tuple((step * 37 + number * 11) % n_vocab for step in range(10 + number)) for number in range(4)]
    return [prompts[index] for _, index in deal(len(prompts), n_slots)[0]]


def as_text(result: Comparison) -> str:
    """A heading, a line for each engine, and their ratios."""
    ratios = result.ratios()
    header = (
        "engine",
        "best tok/s",
        "median",
        "wall best",
        "median",
        "acceptance",
        "target decodes",
        "a round",
        "MTP a round",
    )
    slots = f"{result.n_slots} slot{'s' if result.n_slots > 1 else ''}"
    library = "with patches" if result.is_patched else "without patches"
    lines = [
        f"{slots}, way back {' or '.join(result.ways_back)}, library {library}, "
        f"{len(result.ours.samples)} runs of each; "
        f"same tokens in {result.n_equal_texts} of {result.n_slots}",
        table(header, [_row(result.server), _row(result.ours)]),
        f"ours / theirs: best {ratios['best']:.3f}, median {ratios['median']:.3f}, pairs {ratios['pairs']:.3f}",
    ]
    return "\n".join(lines)


def _row(series: Series) -> tuple[str, ...]:
    last = series.samples[-1]
    speeds = (series.best(speed), series.median(speed), series.best(wall_speed), series.median(wall_speed))
    return (
        series.engine,
        *(f"{value:,.1f}" for value in speeds),
        _figure(last.acceptance, 3),
        _figure(last.n_target, 0),
        _figure(last.target_per_round, 2),
        _figure(last.draft_per_round, 2),
    )


def _figure(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def as_json(result: Comparison) -> dict[str, Any]:
    """Everything that was measured with one number of slots."""
    return {
        "n_slots": result.n_slots,
        "ways_back": result.ways_back,
        "is_patched": result.is_patched,
        "n_equal_texts": result.n_equal_texts,
        "ratio": result.ratios(),
        "engines": [result.server.as_json(), result.ours.as_json()],
    }


if __name__ == "__main__":
    sys.exit(main())
