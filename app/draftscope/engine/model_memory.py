"""How many bytes of memory a model's contexts will take, predicted from its metadata as libllama allocates them.

Keys and values are F16, recurrent states F32: libllama's defaults, which the engine keeps. The caches are counted at
full length, sliding windows included, since drafting needs them so (a window that has forgotten cannot be rolled back).
Compute buffers and the model's weights are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from draftscope.engine import architectures
from draftscope.engine.events import Mechanism
from draftscope.engine.hyperparameters import Hyperparameters

CELL_PADDING = 256
"""libllama rounds the cells of a sequence up to a multiple of this."""

_F16_BYTES = 2
_F32_BYTES = 4


@dataclass(frozen=True, slots=True)
class MemoryNeeds:
    """Bytes of a model's memory, independent of slots and context length.

    ``kv_bytes_per_token``: keys and values of all trunk layers for one token. ``draft_kv_bytes_per_token``: the same of
    the MTP layers, kept in the draft context. ``conv_bytes`` and ``state_bytes``: one recurrent state, its convolution
    part ("R" in libllama's log) and its state part ("S"), all layers together; 0 when nothing is recurrent.
    """

    kv_bytes_per_token: int
    draft_kv_bytes_per_token: int
    conv_bytes: int
    state_bytes: int

    @property
    def recurrent_bytes(self) -> int:
        """One recurrent state: what a checkpoint of a slot holds."""
        return self.conv_bytes + self.state_bytes

    def slot(self, n_ctx: int, n_draft_max: int, n_rs_seq: int) -> SlotMemory:
        """What one slot takes with room for ``n_ctx`` tokens and a draft, keeping ``n_rs_seq`` steps to roll back."""
        cells = cells_per_slot(n_ctx, n_draft_max)
        return SlotMemory(
            n_cells=cells,
            kv_bytes=cells * self.kv_bytes_per_token,
            draft_kv_bytes=cells * self.draft_kv_bytes_per_token if n_draft_max else 0,
            recurrent_bytes=self.recurrent_bytes * (1 + n_rs_seq),
        )

    def slot_with(self, way_back: Mechanism, n_ctx: int, n_draft_max: int) -> SlotMemory:
        """What one slot takes with this way back; ``n_draft_max`` 0 where nothing is drafted.

        Rollback keeps a state for each step of a draft beside the live one. The ways that save keep one saved state:
        ``COW`` and ``DEVICE`` where the live one is, ``HOST`` in the computer's memory.
        """
        is_stepping = way_back is Mechanism.ROLLBACK
        slot = self.slot(n_ctx, n_draft_max, n_draft_max if is_stepping else 0)
        is_saving = way_back in (Mechanism.COW, Mechanism.DEVICE, Mechanism.HOST) and n_draft_max > 0
        return replace(slot, checkpoint_bytes=self.recurrent_bytes if is_saving else 0)


@dataclass(frozen=True, slots=True)
class SlotMemory:
    """Bytes of one slot in the target and the draft context; ``n_cells`` are token places after rounding up.

    ``recurrent_bytes``: the live state and its steps back. ``checkpoint_bytes``: the saved state.
    """

    n_cells: int
    kv_bytes: int
    draft_kv_bytes: int
    recurrent_bytes: int
    checkpoint_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return self.kv_bytes + self.draft_kv_bytes + self.recurrent_bytes + self.checkpoint_bytes


def cells_per_slot(n_ctx: int, n_draft_max: int) -> int:
    """Token places of a slot: its context, a draft and the sampled token behind it, rounded up as libllama does."""
    wanted = n_ctx + (n_draft_max + 1 if n_draft_max else 1)
    return -(-wanted // CELL_PADDING) * CELL_PADDING


def predict_memory(model: Hyperparameters) -> MemoryNeeds | None:
    """The model's needs, or None when its architecture keeps memory of a kind that is not predicted here."""
    name = model.architecture
    if name not in architectures.KNOWN or name in architectures.OTHER_CACHES or model.n_layer_all == 0:
        return None
    if name == "qwen4exp" and (model.number("attention.indexer.head_count") or model.has("ple.conv_kernel")):
        return None
    if name in architectures.NO_MEMORY or name in architectures.NOT_A_LANGUAGE_MODEL:
        return MemoryNeeds(0, 0, 0, 0)
    recurrent = model.recurrent_layers
    n_recurrent = sum(recurrent[: model.n_layer])
    conv, state = _recurrent_elements(model) if n_recurrent else (0, 0)
    per_layer = [_kv_elements(model, layer) * _F16_BYTES for layer in range(model.n_layer_all)]
    trunk = range(model.n_layer)
    attends = [layer for layer in trunk if _keeps_keys(model, layer, recurrent[layer])]
    return MemoryNeeds(
        kv_bytes_per_token=sum(per_layer[layer] for layer in attends),
        draft_kv_bytes_per_token=sum(per_layer[model.n_layer :]),
        conv_bytes=n_recurrent * conv * _F32_BYTES,
        state_bytes=n_recurrent * state * _F32_BYTES,
    )


def _keeps_keys(model: Hyperparameters, layer: int, is_recurrent: bool) -> bool:
    if model.architecture == "falcon-h1":
        return True
    if model.architecture in ("nemotron_h", "nemotron_h_moe"):
        return not is_recurrent and model.per_layer("feed_forward_length", 0)[layer] == 0
    if model.architecture == "gemma3n":
        return layer < 20
    if model.architecture == "gemma4":
        return layer < model.n_layer_all - model.number("attention.shared_kv_layers")
    return not is_recurrent


def _kv_elements(model: Hyperparameters, layer: int) -> int:
    n_head = model.heads[0] if model.heads else 0
    if n_head == 0:
        return 0
    of_window = "_swa" if model.windowed_layers[layer] else ""
    full_key = model.number("attention.key_length", model.n_embd // n_head)
    full_value = model.number("attention.value_length", model.n_embd // n_head)
    key = model.number("attention.key_length_swa", full_key) if of_window else full_key
    value = model.number("attention.value_length_swa", full_value) if of_window else full_value
    if model.has("attention.key_length_mla"):
        value = 0  # the values are read out of the compressed keys
    return (key + value) * model.kv_heads[layer]


def _recurrent_elements(model: Hyperparameters) -> tuple[int, int]:
    """Elements of one layer's convolution part and state part; the cases stand in libllama's order."""
    n_head = model.heads[0] if model.heads else 0
    if head := model.number("wkv.head_size"):
        return model.number("token_shift_count", 2) * model.n_embd, model.n_embd * head
    if length := model.number("shortconv.l_cache"):
        return model.n_embd * (length - 1), 0
    kernel = model.number("ssm.conv_kernel")
    if head := model.number("kda.head_dim"):
        return 3 * (kernel - 1 if kernel else 3) * n_head * head, head * head * n_head
    inner, state = model.number("ssm.inner_size"), model.number("ssm.state_size")
    conv = max(kernel - 1, 0) * (inner + 2 * model.number("ssm.group_count") * state)
    if model.architecture == "minimax-01":
        head = model.number("attention.key_length", model.n_embd // n_head if n_head else 0)
        return conv, head * head * n_head
    return conv, state * inner
