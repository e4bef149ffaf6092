"""A running llama-server and what it answers: completions with their timings, and its counters.

All prompts of a run go in one request, so that the server starts its slots together, without a client's threads in
between. The times are the server's own (``timings``): ``prompt_ms`` ends with a slot's first token, ``predicted_ms``
reaches from there to the last one. Decode calls come from ``/metrics``; those of the prompts, which the same request
for a single token shows, are taken off. Its rounds are known with one slot only: it counts the drafts it verified,
over all slots. It does not tell how often it decodes with the MTP context.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftscope.engine.protocol import SamplingSettings
from tests.peers.samples import Sample, SlotTimes

_START_LIMIT_S = 120
_RUN_LIMIT_S = 600
_METRIC_PREFIX = "llamacpp:"
_N_DECODES = "n_decode_total"
_N_VERIFIED = "spec_decode_num_drafts_total"


class ServerError(Exception):
    """The server did not start or refused a request; the message has its words."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What the server is started with; ``n_ctx`` in tokens of one slot."""

    model: Path
    n_slots: int
    n_ctx: int
    n_threads: int
    n_draft_max: int

    def command(self, executable: Path, port: int) -> list[str]:
        """Its command line. Prompt caches are off, since no prompt is used again: they could only cost it time."""
        threads = str(self.n_threads)
        command = [str(executable), "-m", str(self.model), "--host", "127.0.0.1", "--port", str(port)]
        command += ["-np", str(self.n_slots), "-c", str(self.n_ctx * self.n_slots), "-t", threads, "-tb", threads]
        command += ["--metrics", "--no-ui", "--cache-ram", "0", "--ctx-checkpoints", "0"]
        if self.n_draft_max:
            command += ["--spec-type", "draft-mtp", "--spec-draft-n-max", str(self.n_draft_max)]
            command += ["--spec-draft-threads", threads, "--spec-draft-threads-batch", threads]
        return command


class LlamaServer:
    """A client of one server on a port of this machine."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._n_prompt_decodes: int | None = None

    def tokenize(self, text: str) -> tuple[int, ...]:
        """The ids of a text, with the special tokens that the model wants."""
        answer = self._ask("POST", "/tokenize", {"content": text, "add_special": True, "parse_special": True})
        return tuple(json.loads(answer)["tokens"])

    def warm_up(self, prompts: Sequence[Sequence[int]], body: dict[str, Any]) -> None:
        """Run once, and find out how many decodes the prompts take."""
        self._complete(prompts, body)
        before = self._counters()
        self._complete(prompts, body | {"n_predict": 1})
        self._n_prompt_decodes = _difference(self._counters(), before, _N_DECODES)

    def run(self, prompts: Sequence[Sequence[int]], body: dict[str, Any]) -> Sample:
        """One prompt a slot, all at once, to the end."""
        before = self._counters()
        started = time.perf_counter()
        answers = self._complete(prompts, body)
        wall_ms = (time.perf_counter() - started) * 1e3
        after = self._counters()
        n_decodes, n_rounds = _difference(after, before, _N_DECODES), _difference(after, before, _N_VERIFIED)
        n_prompt = self._n_prompt_decodes
        n_target = None if n_decodes is None or n_prompt is None else n_decodes - n_prompt
        return sample_of(answers, wall_ms, n_rounds if len(prompts) == 1 else None, n_target)

    def _complete(self, prompts: Sequence[Sequence[int]], body: dict[str, Any]) -> list[dict[str, Any]]:
        answer = json.loads(self._ask("POST", "/completion", {"prompt": [list(p) for p in prompts], **body}))
        return answers_in_order(answer)

    def _counters(self) -> dict[str, int]:
        return read_counters(self._ask("GET", "/metrics"))

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_RUN_LIMIT_S)
        with contextlib.closing(connection):
            connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read().decode()
        if response.status != 200:
            raise ServerError(f"llama-server answered {path} with status {response.status}: {text[:500]}")
        return text


@contextlib.contextmanager
def serving(executable: Path, settings: ServerSettings, log: Path) -> Iterator[LlamaServer]:
    """A server with a loaded model, ended at the end. Its output goes into the file ``log``.

    Raises:
        ServerError: it ended, or was not ready in time.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with log.open("w") as output:
        process = subprocess.Popen(settings.command(executable, port), stdout=output, stderr=subprocess.STDOUT)
    try:
        _wait_until_ready(process, port, log)
        yield LlamaServer(port)
    finally:
        process.terminate()
        process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as asked:
            asked.request("GET", "/health")
            if asked.getresponse().status == 200:
                return
        time.sleep(0.05)
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
    how = f"ended with status {process.returncode}" if process.returncode is not None else "was not ready in time"
    raise ServerError(f"llama-server {how}. The end of its log:\n{tail}")


def request_body(sampling: SamplingSettings, max_tokens: int) -> dict[str, Any]:
    """The fields of a request that samples as ours does: greedy at temperature 0, else with the same chain."""
    body: dict[str, Any] = {"n_predict": max_tokens, "ignore_eos": True, "cache_prompt": False, "return_tokens": True}
    if sampling.temperature == 0:
        return body | {"samplers": ["top_k"], "top_k": 1}
    return body | {
        "samplers": ["top_k", "top_p", "min_p", "temperature"],
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "seed": sampling.seed,
    }


def answers_in_order(answer: Any) -> list[dict[str, Any]]:
    """The completions of a request by prompt: a single one comes bare, several in a list with their index."""
    if isinstance(answer, dict):
        return [answer]
    return sorted(answer, key=lambda completion: completion["index"])


def read_counters(text: str) -> dict[str, int]:
    """The counters of ``/metrics`` by name, without the prefix.

    Those with labels are left out, and those that have outgrown the six digits that the server prints.
    """
    rows = (
        line.removeprefix(_METRIC_PREFIX).split(" ") for line in text.splitlines() if line.startswith(_METRIC_PREFIX)
    )
    return {row[0]: int(row[1]) for row in rows if "{" not in row[0] and row[1].isdecimal()}


def sample_of(answers: Sequence[dict[str, Any]], wall_ms: float, n_rounds: int | None, n_target: int | None) -> Sample:
    """A sample from the answers of one request and the counters around it."""
    return Sample(tuple(map(_slot, answers)), wall_ms, n_rounds=n_rounds, n_target=n_target)


def _slot(answer: dict[str, Any]) -> SlotTimes:
    timings = answer["timings"]
    return SlotTimes(
        tokens=tuple(answer["tokens"]),
        first_ms=timings["prompt_ms"],
        generate_ms=timings["predicted_ms"],
        draft_n=timings.get("draft_n", 0),
        draft_n_accepted=timings.get("draft_n_accepted", 0),
    )


def _difference(after: dict[str, int], before: dict[str, int], name: str) -> int | None:
    return after[name] - before[name] if name in after and name in before else None
