"""What the scripted engine says that it has loaded, and what it grants."""

from __future__ import annotations

import dataclasses

from draftscope.engine import fake_text
from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.events import Mechanism
from draftscope.engine.fake_costs import CALIBRATION_MS, STATE_BYTES, WEIGHTS_BYTES, calibration, memory_of, state_bytes
from draftscope.engine.protocol import (
    CheckpointMode,
    ContextSettings,
    ModelReport,
    ModelSettings,
    Speculation,
    WayBack,
)

MAX_SLOTS = 64

WITHOUT_STATES = ("fake:dense", "fake:plain")
"""Models with nothing but a KV cache, which can drop its newest tokens."""

WITHOUT_TEMPLATE = "fake:no-template"
"""The model whose file has no chat template."""

_SAVING = {
    CheckpointMode.COW: Mechanism.COW,
    CheckpointMode.DEVICE: Mechanism.DEVICE,
    CheckpointMode.HOST: Mechanism.HOST,
}

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
    way = _way_back(model, context, speculation)
    mechanism, is_recurrent = Mechanism[way.granted.upper()], model.path not in WITHOUT_STATES
    return ModelReport(
        path=model.path,
        description="scripted 0.8B Q8_0",
        architecture="qwen3next" if model.path == "fake:hybrid" else "qwen35",
        size_bytes=WEIGHTS_BYTES,
        n_params=801_112_064,
        n_layer=24,
        n_embd=1024,
        n_vocab=fake_text.N_VOCAB,
        n_ctx_train=32_768,
        has_tokenizer=True,
        has_chat_template=model.path != WITHOUT_TEMPLATE,
        is_recurrent=is_recurrent,
        n_slots_asked=context.n_slots,
        n_slots=context.n_slots,
        n_ctx=context.n_ctx,
        n_threads=context.n_threads or 4,
        devices=(*model.rpc_servers, *model.devices) or ("CPU",),
        speculation=speculation,
        way_back=way,
        engine="scripted",
        is_patched=False,
        load_ms=load_ms,
        shifts=context.shift and not is_recurrent,
        why_not_shift="The scripted model has recurrent layers." if is_recurrent else "",
        memory=memory_of(context, mechanism, is_recurrent=is_recurrent, n_draft=speculation.n_draft_max),
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
        return Speculation(True, n_layer_nextn, context.n_draft_max, family="single_head")
    return Speculation(False, n_layer_nextn, 0, reason, "single_head" if n_layer_nextn else "none")


def _way_back(model: ModelSettings, context: ContextSettings, speculation: Speculation) -> WayBack:
    asked, n = context.checkpoint, speculation.n_draft_max
    if not speculation.is_active:
        return WayBack(asked, "none", 0, 0, "Nothing is drafted, so nothing is rolled back.")
    if model.path == "fake:plain":
        return WayBack(asked, "kv_removal", 0, 0, "The model's memory drops its newest tokens by itself.")
    if asked in _SAVING:
        way = _SAVING[asked]
        return WayBack(asked, way.name.lower(), 0, 0, "Asked for.", state_bytes(way, 0))
    if model.path != "fake:hybrid":
        why = f"The model's recurrent memory steps back by itself, up to {n} steps."
        return _way_of_auto(WayBack(asked, "rollback", n, n, why, state_bytes(Mechanism.ROLLBACK, n)), {}, context)
    refusal = f"This architecture is granted no native rollback: {n} steps asked for, 0 granted."
    if asked is CheckpointMode.AUTO:
        why = f"{refusal} Of the ways that are left, copy on write is the cheapest."
        way_back = WayBack(asked, "cow", n, 0, why, STATE_BYTES)
        return _way_of_auto(way_back, {Mechanism.ROLLBACK: refusal}, context)
    return WayBack(asked, "host", n, 0, f"{refusal} States are saved in host memory.", STATE_BYTES)


def _way_of_auto(way: WayBack, refused: dict[Mechanism, str], context: ContextSettings) -> WayBack:
    """The same with the calibration that led to it, where the choice was the engine's."""
    if way.asked is not CheckpointMode.AUTO:
        return way
    table = calibration(Mechanism[way.granted.upper()], refused, context.n_slots)
    return dataclasses.replace(way, calibration=table, calibration_ms=CALIBRATION_MS)
