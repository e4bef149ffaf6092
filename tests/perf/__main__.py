"""Run the benchmarks and print a table; with ``--json FILE`` also write every sample."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
from pathlib import Path

from tests.perf.figures import Figure, as_table

BENCHMARKS = ("ring", "receive", "view", "overhead", "probes", "checkpoints", "trace", "window")
_DEFAULT_REPEATS = 5


def main() -> int:
    """Run those that were named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.perf", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; all when none is named")
    parser.add_argument("--repeats", type=int, default=_DEFAULT_REPEATS, help="samples of each figure")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples")
    options = parser.parse_args()
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(f"there is no benchmark {sorted(unknown)[0]!r}")
    figures: list[Figure] = []
    for name in options.names or BENCHMARKS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        figures += importlib.import_module(f"tests.perf.{name}").measure(options.repeats)
    machine = f"{platform.platform()}, {os.cpu_count()} processors, Python {platform.python_version()}"
    print(f"{as_table(figures)}\n\n{machine}, load {os.getloadavg()[0]:.1f}")
    if options.json:
        output = {"machine": machine, "load": os.getloadavg()[0], "figures": [figure.as_json() for figure in figures]}
        options.json.write_text(json.dumps(output, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
