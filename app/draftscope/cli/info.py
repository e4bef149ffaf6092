"""``draftscope info``: what a model file is, before anything is loaded."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from draftscope.base.paths import demo_model
from draftscope.base.units import bytes_text
from draftscope.cli.failure import ExitCode, UsageError
from draftscope.cli.info_memory import Asked, memory_as_text, prediction, state_bytes
from draftscope.cli.options import DEMO, add_draft_option
from draftscope.engine import architectures
from draftscope.engine.codec import as_plain
from draftscope.engine.gguf_values import printable
from draftscope.engine.model_file import ModelFile, inspect_model
from draftscope.engine.mtp_head import MtpFamily
from draftscope.engine.protocol import ContextSettings

_DEFAULTS = ContextSettings()
_MAX_SLOTS = 64
_MAX_CONTEXT = 1 << 24
_MAX_DRAFT = 16
_VALUE_WIDTH = 60

_EPILOG = """\
Bytes are predicted as the engine would allocate them: keys and values in F16, recurrent states in F32, room for a draft
behind the context, rounded up to 256 tokens. Weights and compute buffers come on top.
"""


def add_parser(subparsers: Any) -> None:
    """Declare the command's options."""
    parser = subparsers.add_parser("info", help="what a model file is: MTP layers, ways back, bytes", epilog=_EPILOG)
    parser.add_argument("file", metavar="FILE.gguf", help="a GGUF file, or 'demo' for the bundled model")
    parser.add_argument(
        "--slots", metavar="N", type=int, default=_DEFAULTS.n_slots, help="slots to predict for (default 4)"
    )
    parser.add_argument("--ctx", metavar="N", type=int, default=_DEFAULTS.n_ctx, help="tokens a slot (default 2048)")
    parser.add_argument(
        "--draft-max", metavar="K", type=int, default=_DEFAULTS.n_draft_max, help="tokens to draft a round (default 3)"
    )
    add_draft_option(parser)
    parser.add_argument("--json", action="store_true", help="print the facts as JSON instead of text")


def run(options: argparse.Namespace) -> int:
    """Print the facts of a file. A file that can be read but not run is no error here: the reason is one of its facts.

    Raises:
        UsageError: a number is out of range.
        EngineError: code BAD_FILE, the file cannot be read.
    """
    asked = Asked(
        _within("--slots", options.slots, 1, _MAX_SLOTS),
        _within("--ctx", options.ctx, 1, _MAX_CONTEXT),
        _within("--draft-max", options.draft_max, 0, _MAX_DRAFT),
    )
    model = inspect_model(demo_model() if options.file == DEMO else options.file, options.draft_model)
    print(json.dumps(as_json(model, asked), indent=2) if options.json else as_text(model, asked))
    return int(ExitCode.DONE)


def as_json(model: ModelFile, asked: Asked) -> dict[str, Any]:
    """The facts as JSON types; sizes in bytes."""
    facts: dict[str, Any] = as_plain({name: getattr(model, name) for name in ModelFile.__dataclass_fields__})
    facts["path"] = str(model.path)
    facts["types"] = dict(model.types)
    facts["metadata"] = {key: _finite(value) for key, value in model.metadata.items()}
    if model.draft is not None:
        facts["draft"]["path"] = str(model.draft.path)
    facts["mtp"] |= {"meaning": model.mtp.meaning, "types": dict(model.mtp.types)}
    facts["can_run"] = model.obstacle is None
    facts["prediction"] = prediction(model, asked)
    return facts


def _finite(value: int | float | bool | str) -> int | float | bool | str:
    """JSON has no NaN and no infinity; a metadata value may be one."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def as_text(model: ModelFile, asked: Asked) -> str:
    """The facts for a person."""
    parts = ["\n".join(_headline(model)), "\n".join(_mtp(model))]
    if model.architecture not in architectures.DRAFT_ONLY:  # which have no slots of their own
        if model.ways_back:
            parts.append(_ways_back(model, asked))
        parts += memory_as_text(model, asked)
    parts.append(_metadata(model))
    return "\n\n".join(parts)


def _headline(model: ModelFile) -> Iterator[str]:
    yield printable(str(model.path))
    if model.obstacle is not None:
        yield f"  cannot be run: {model.obstacle.message}"
        yield f"  {model.obstacle.hint}"
    parts = f" in {model.n_parts} files" if model.n_parts > 1 else ""
    yield from _rows(
        [
            ("name", _brief(model.name) or "none"),
            ("architecture", _brief(model.architecture) or "not stated"),
            ("parameters", f"{model.n_params:,} in {model.n_tensors} tensors"),
            ("file", f"{bytes_text(model.size_bytes)}{parts}, GGUF version {model.gguf_version}"),
            ("weights", _types(model.types) or "none"),
            ("layers", f"{model.n_layer}, width {model.n_embd}"),
            ("vocabulary", f"{model.n_vocab:,} tokens, {_tokenizer(model)}"),
            ("trained for", f"{model.n_ctx_train:,} tokens of context"),
            ("chat template", "yes" if model.chat_template else "none"),
            ("licence", _brief(model.licence) or "not stated"),
        ]
    )


def _tokenizer(model: ModelFile) -> str:
    return f"tokenizer {_brief(model.tokenizer)}" if model.has_tokenizer else "no tokenizer: prompts must be token ids"


def _mtp(model: ModelFile) -> Iterator[str]:
    mtp = model.mtp
    yield "MTP"
    rows = [
        ("layers", f"{mtp.n_claimed} claimed, {mtp.n_found} found"),
        ("kind", f"{mtp.family.value}: {mtp.meaning}"),
        ("can draft", "yes" if mtp.can_draft else f"no. {mtp.reason}"),
    ]
    if mtp.can_draft and mtp.family is MtpFamily.CHAINED_HEADS:
        rows.append(("heads", f"{mtp.n_claimed}: at most {mtp.n_claimed} tokens are drafted a round"))
    if model.draft is not None:
        size = bytes_text(model.draft.size_bytes)
        rows.append(("draft file", f"{printable(str(model.draft.path))}, {model.draft.architecture}, {size}"))
    if mtp.types:
        rows.append(("weights", _types(mtp.types)))
    if mtp.low_bit_types:
        names = ", ".join(mtp.low_bit_types)
        rows.append(("beware", f"{names} is coarse for an MTP head; acceptance may be near zero"))
    yield from _rows(rows)


def _ways_back(model: ModelFile, asked: Asked) -> str:
    bytes_of = state_bytes(model, asked)
    lines = [("", "", "state a slot", "")]
    for way in model.ways_back:
        n_bytes = bytes_of.get(way.name)
        size = bytes_text(n_bytes) if n_bytes else "-"
        lines.append((way.name, "yes" if way.is_possible else "no", size, way.why))
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    shown = [f"  {a:{widths[0]}}  {b:{widths[1]}}  {c:>{widths[2]}}  {d}".rstrip() for a, b, c, d in lines]
    return "\n".join(["Ways back after a rejected draft", *shown])


def _metadata(model: ModelFile) -> str:
    lines = ["Metadata", *_rows([(_brief(key), _brief(value)) for key, value in model.metadata.items()])]
    return "\n".join(lines)


def _brief(value: int | float | bool | str) -> str:
    text = printable(str(value).replace("\n", "\\n"))
    return text if len(text) <= _VALUE_WIDTH else f"{text[: _VALUE_WIDTH - 1]}…"


def _rows(rows: Sequence[tuple[str, str]]) -> list[str]:
    width = max((len(name) for name, _ in rows), default=0)
    return [f"  {name:{width}}  {text}" for name, text in rows]


def _types(types: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {bytes_text(n_bytes)}" for name, n_bytes in types)


def _within(option: str, value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise UsageError(f"{option} {value} is out of range.", f"It takes {low} to {high}.")
    return value
