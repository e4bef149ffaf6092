"""What the scripted engine says that it has loaded, and what it grants."""

from __future__ import annotations

from draftscope.engine import fake_text
from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.events import Mechanism
from draftscope.engine.fake_round import STATE_BYTES
from draftscope.engine.protocol import (
    CheckpointMode,
    ContextSettings,
    ModelReport,
    ModelSettings,
    Speculation,
    WayBack,
)

MAX_SLOTS = 64

_LIMITS = {
    "n_slots": (1, MAX_SLOTS),
    "n_ctx": (16, 1 << 24),
    "n_draft_max": (0, 16),
    "n_threads": (0, 256),
    "n_batch": (32, 1 << 16),
}


def report_of(model: ModelSettings, context: ContextSettings, load_ms: float) -> ModelReport:
    """The report of a scripted model in new contexts.

    Raises:
        EngineError: BAD_SETTINGS, when a setting is out of its range.
    """
    for name, (low, high) in _LIMITS.items():
        value = getattr(context, name)
        if not low <= value <= high:
            what = f"The setting {name} is {value}, outside {low} to {high}."
            raise EngineError(ErrorCode.BAD_SETTINGS, what)
    speculation = _speculation(model, context)
    return ModelReport(
        path=model.path,
        description="scripted 0.8B Q8_0",
        architecture="qwen3next" if model.path == "fake:hybrid" else "qwen35",
        size_bytes=853_417_984,
        n_params=801_112_064,
        n_layer=24,
        n_embd=1024,
        n_vocab=fake_text.N_VOCAB,
        n_ctx_train=32_768,
        has_tokenizer=True,
        has_chat_template=True,
        is_recurrent=model.path != "fake:dense",
        n_slots_asked=context.n_slots,
        n_slots=context.n_slots,
        n_ctx=context.n_ctx,
        n_threads=context.n_threads or 4,
        devices=(*model.rpc_servers, *model.devices) or ("CPU",),
        speculation=speculation,
        way_back=_way_back(model, context, speculation),
        engine="scripted",
        is_patched=False,
        load_ms=load_ms,
    )


def _speculation(model: ModelSettings, context: ContextSettings) -> Speculation:
    n_layer_nextn = 0 if model.path == "fake:dense" else 1
    if not context.use_mtp:
        reason = "MTP is turned off."
    elif context.n_draft_max == 0:
        reason = "The draft length is 0."
    elif n_layer_nextn == 0:
        reason = "This model file has no MTP layers, so there is nothing that could draft."
    else:
        return Speculation(True, n_layer_nextn, context.n_draft_max)
    return Speculation(False, n_layer_nextn, 0, reason)


def _way_back(model: ModelSettings, context: ContextSettings, speculation: Speculation) -> WayBack:
    asked = context.checkpoint
    if not speculation.is_active:
        return WayBack(asked, "none", 0, 0, "Nothing is drafted, so nothing is rolled back.")
    if asked in (CheckpointMode.COW, CheckpointMode.DEVICE, CheckpointMode.HOST):
        return WayBack(asked, Mechanism[asked.name].name.lower(), 0, 0, "Asked for.", STATE_BYTES)
    n = speculation.n_draft_max
    if model.path == "fake:hybrid":
        why = f"This architecture is granted no native rollback ({n} steps asked), so states are saved in host memory."
        return WayBack(asked, "host", n, 0, why, STATE_BYTES)
    return WayBack(asked, "rollback", n, n, f"The model's recurrent memory steps back by itself, up to {n} steps.")
