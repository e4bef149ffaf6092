"""The facts of a model file in words, for the open dialog. No Qt."""

from __future__ import annotations

from typing import NamedTuple

from draftscope.base import units
from draftscope.engine.model_file import ModelFile
from draftscope.engine.mtp_head import MtpFamily
from draftscope.engine.protocol import ContextSettings


class FactRow(NamedTuple):
    """A name and a value; ``tone`` is '' or a tone of the style sheet (``ok``, ``warn``, ``bad``)."""

    name: str
    value: str
    tone: str = ""


def model_facts(model: ModelFile, context: ContextSettings) -> list[FactRow]:
    """What the file is, and what will be possible with these contexts."""
    rows = [
        FactRow("Model", model.name or model.path.name),
        FactRow("Architecture", f"{model.architecture}, {model.n_layer} layers, {_count(model.n_params)} parameters"),
        FactRow("Size", _size(model)),
        FactRow("Trained context", f"{model.n_ctx_train:,} tokens" if model.n_ctx_train else "not stated"),
        FactRow("MTP layers", *_mtp(model)),
        FactRow("Ways back", ", ".join(way.name for way in model.ways_back if way.is_possible) or "not known"),
        FactRow("Memory per slot", _memory(model, context)),
        FactRow("Chat template", "yes" if model.chat_template else "no: prompts are plain text"),
    ]
    if not model.has_tokenizer:
        rows.append(FactRow("Tokenizer", "none in the file: prompts must be token ids", "warn"))
    if model.draft is not None:
        size = units.bytes_text(model.draft.size_bytes)
        rows.insert(5, FactRow("Draft model", f"{model.draft.path.name}, {model.draft.architecture}, {size}"))
    if model.obstacle is not None:
        rows.append(FactRow("Cannot run", model.obstacle.message, "bad"))
        rows.append(FactRow("", model.obstacle.hint))
    return rows


def _size(model: ModelFile) -> str:
    types = ", ".join(name for name, _ in model.types[:3])
    parts = f" in {model.n_parts} files" if model.n_parts > 1 else ""
    return f"{units.bytes_text(model.size_bytes)}{parts} ({types})"


def _mtp(model: ModelFile) -> tuple[str, str]:
    mtp = model.mtp
    if mtp.family is MtpFamily.ASSISTANT and mtp.n_claimed == 0:
        what = "the chosen one cannot be used" if model.draft else "choose it below, or tokens come one by one"
        return f"in a second file, the assistant: {what}", "warn"
    if mtp.n_claimed == 0:
        return "none: tokens are generated one by one", "warn"
    if not mtp.can_draft:
        return f"{mtp.n_found} of {mtp.n_claimed} stated. {mtp.reason}", "warn"
    types = ", ".join(name for name, _ in mtp.types[:3])
    low = f"; {', '.join(mtp.low_bit_types)} heads accept little" if mtp.low_bit_types else ""
    return f"{mtp.n_found}, {mtp.meaning} ({types}){low}", "warn" if low else "ok"


def _memory(model: ModelFile, context: ContextSettings) -> str:
    if model.memory is None:
        return "cannot be predicted for this architecture"
    n_draft = model.mtp.longest_draft(context.n_draft_max) if context.use_mtp else 0
    ways = {way.name for way in model.ways_back if way.is_possible}
    n_rs_seq = n_draft if "rollback" in ways else 0
    slot = model.memory.slot(context.n_ctx, n_draft, n_rs_seq)
    total = units.bytes_text(slot.total_bytes * context.n_slots)
    return f"{units.bytes_text(slot.total_bytes)}, {total} for {context.n_slots} slots, without the weights"


def _count(n: int) -> str:
    for factor, letter in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if n >= factor:
            return f"{n / factor:.3g} {letter}"
    return str(n)
