"""The native backend: our C++ core on the libllama that ``llama_cpp`` loads.

Importing this module loads both (``engine/library.py``), and raises what that raises.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from draftscope.engine.backend import ChatTemplate, CheckpointCounts, ModelIdentity, Progress
from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.events import Mechanism, Reuse, StopReason
from draftscope.engine.fingerprint import fingerprint
from draftscope.engine.host_memory import available_bytes, check_fits
from draftscope.engine.library import core as _core
from draftscope.engine.library import llama_log, with_llamas_words
from draftscope.engine.model_file import ModelFile, check_loadable
from draftscope.engine.probes import FAULTS, LEVELS, Fault, ProbeLevel
from draftscope.engine.protocol import (
    CatchUp,
    CheckpointMode,
    ContextSettings,
    DecodeCost,
    DecodeCounts,
    MemoryUse,
    ModelReport,
    ModelSettings,
    Replay,
    SamplingSettings,
    SlotFacts,
    SlotResult,
    SlotTask,
    Speculation,
    TimedWay,
    WayBack,
)
from draftscope.engine.rpc import RpcProtocol
from draftscope.engine.rpc_connections import ServerWatch, ask_before_load

_MODES = {mode: number for number, mode in enumerate(CheckpointMode)}  # declared in the order of core/settings.h
_FAMILIES = ("none", "single_head", "chained_heads", "assistant")  # in the order of core/speculation.h
_REPLAYS = {replay: number for number, replay in enumerate(Replay)}  # the same


class NativeBackend:
    """``backend.Backend`` on the C++ core.

    Args:
        ring_memory: writable buffer with an initialised ring (``engine/ring.py``); held until the backend is gone.
    """

    def __init__(self, ring_memory: memoryview) -> None:
        self._engine = _core.Engine(ring_memory)
        self._model: ModelSettings | None = None
        self._file: ModelFile | None = None
        self._load_ms = 0.0
        self._library = ""
        self._predicted: dict[str, int] = {}
        self._identity: ModelIdentity | None = None
        self._watch = ServerWatch()

    def load(self, model: ModelSettings, context: ContextSettings, progress: Progress) -> ModelReport:
        """See ``Backend.load``. Files and servers that libllama would abort on are refused before it sees them."""
        self.unload()
        started = time.monotonic()
        use_mtp = context.use_mtp and context.n_draft_max > 0
        self._file = check_loadable(model.path, model.draft_path, use_mtp=use_mtp)
        if not model.use_mmap and self._runs_on_cpu(model):
            check_fits("The weights of this model", self._weights_bytes(self._file), available_bytes())
        try:
            self._load_weights(model, self._file, progress)
            self._model = model
            if not progress(1.0, "contexts"):
                raise EngineError(ErrorCode.CANCELLED, "Loading was cancelled.")
            report = self._configure(context, lambda: progress(1.0, "ways back"))
        except BaseException:
            self.unload()
            raise
        self._load_ms = (time.monotonic() - started) * 1e3
        self._library = str(report["engine"])
        return self._report(report)

    def _load_weights(self, model: ModelSettings, file: ModelFile, progress: Progress) -> None:
        endpoints = ask_before_load(model.rpc_servers, RpcProtocol(*_core.rpc_protocol()), progress)

        def tell(fraction: float) -> bool:
            self._watch.begin(endpoints)  # all are connected by now, and stay so until the model is unloaded
            return progress(fraction, "weights")

        where = {
            "n_gpu_layers": model.n_gpu_layers,
            "devices": list(model.devices),
            "use_mmap": model.use_mmap,
            "rpc_endpoints": endpoints,
        }
        obstacle = "" if file.mtp.can_draft else file.mtp.reason
        with with_llamas_words():
            self._engine.load(model.path, mtp_obstacle=obstacle, progress=tell, **where)
        if model.draft_path:
            with with_llamas_words():
                self._engine.load_assistant(
                    model.draft_path, progress=lambda fraction: progress(fraction, "draft weights"), **where
                )

    @staticmethod
    def _weights_bytes(file: ModelFile) -> int:
        return file.size_bytes + (file.draft.size_bytes if file.draft else 0)

    def configure(self, context: ContextSettings) -> ModelReport:
        """See ``Backend.configure``."""
        return self._report(self._configure(context, lambda: True))

    def unload(self) -> None:
        """See ``Backend.unload``."""
        self._engine.unload()
        self._watch.end()
        self._model = self._identity = None

    def chat_template(self) -> ChatTemplate | None:
        """See ``Backend.chat_template``."""
        source, bos, eos = (part.decode("utf-8", "replace") for part in self._engine.chat_template())
        return ChatTemplate(source, bos, eos) if source else None

    def tokenize(self, text: str, *, parse_special: bool, add_special: bool) -> tuple[int, ...]:
        """See ``Backend.tokenize``."""
        return tuple(self._engine.tokenize(text.encode(), add_special=add_special, parse_special=parse_special))

    def submit(self, task: SlotTask, tokens: tuple[int, ...]) -> None:
        """See ``Backend.submit``."""
        sampling = task.sampling
        with with_llamas_words():
            self._submit(task, sampling, tokens)

    def _submit(self, task: SlotTask, sampling: SamplingSettings, tokens: tuple[int, ...]) -> None:
        self._engine.submit(
            slot=task.slot,
            prompt=list(tokens),
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            min_p=sampling.min_p,
            repeat_penalty=sampling.repeat_penalty,
            repeat_last_n=sampling.repeat_last_n,
            presence_penalty=sampling.presence_penalty,
            seed=sampling.seed & 0xFFFFFFFF,
            max_tokens=task.max_tokens,
            stop=list(task.stop),
            ignore_eos=task.ignore_eos,
            reuse=task.reuse,
            is_continuation=task.prompt.is_continuation,
            grammar=task.grammar,
        )

    def step(self) -> bool:
        """See ``Backend.step``; the interpreter lock is free while it computes."""
        has_work = bool(self._engine.step())
        llama_log.is_cancelling = False
        return has_work

    def cancel(self, slots: tuple[int, ...]) -> None:
        """See ``Backend.cancel``."""
        llama_log.is_cancelling = True
        for slot in slots or (-1,):
            self._engine.cancel(slot)

    def take_results(self) -> list[SlotResult]:
        """See ``Backend.take_results``."""
        return [_slot_result(fields) for fields in self._engine.take_results()]

    def take_pieces(self) -> dict[int, bytes]:
        """See ``Backend.take_pieces``; control tokens are named (``<|im_end|>``)."""
        return {token: self._engine.piece(token) for token in self._engine.take_new_tokens()}

    def decode_counts(self) -> DecodeCounts:
        """See ``Backend.decode_counts``."""
        counts = self._engine.counts()
        return DecodeCounts(**{name: counts[name] for name in DecodeCounts.__dataclass_fields__})

    def checkpoint_counts(self) -> CheckpointCounts:
        """See ``Backend.checkpoint_counts``."""
        counts = self._engine.counts()
        return CheckpointCounts(counts["n_saves"], counts["n_restores"], counts["n_fallbacks"])

    def memory_use(self) -> tuple[MemoryUse, ...]:
        """See ``Backend.memory_use``."""
        return tuple(
            MemoryUse(kind, host_bytes, device_bytes, self._predicted.get(kind, -1))
            for kind, host_bytes, device_bytes in self._engine.memory()
        )

    def decode_cost(self) -> DecodeCost:
        """See ``Backend.decode_cost``."""
        counts = self._engine.counts()
        return DecodeCost(counts["n_decodes_measured"], counts["graph_us"], counts["token_us"])

    def clear_slot(self, slot: int) -> None:
        """See ``Backend.clear_slot``."""
        self._engine.clear_slot(slot)

    def rewind_slot(self, slot: int, n_tokens: int) -> None:
        """See ``Backend.rewind_slot``."""
        self._engine.rewind_slot(slot, n_tokens)

    def fork_slot(self, slot: int, to: int) -> None:
        """See ``Backend.fork_slot``."""
        self._engine.fork_slot(slot, to)

    def shift_slot(self, slot: int, n_keep: int, n_discard: int) -> None:
        """See ``Backend.shift_slot``."""
        self._engine.shift_slot(slot, n_keep, n_discard)

    def save_slot(self, slot: int) -> bytes:
        """See ``Backend.save_slot``."""
        return bytes(self._engine.save_slot(slot))

    def restore_slot(self, slot: int, state: bytes) -> None:
        """See ``Backend.restore_slot``."""
        self._engine.restore_slot(slot, state)

    def slot_facts(self, slot: int) -> SlotFacts:
        """See ``Backend.slot_facts``."""
        return SlotFacts(slot, **self._engine.slot_facts(slot))

    def slot_tokens(self, slot: int) -> tuple[int, ...]:
        """See ``Backend.slot_tokens``."""
        return tuple(self._engine.slot_tokens(slot))

    def text_of(self, tokens: tuple[int, ...]) -> str:
        """See ``Backend.text_of``."""
        return b"".join(self._engine.piece(token) for token in tokens).decode("utf-8", "replace")

    def set_probe(self, level: ProbeLevel, slots: tuple[int, ...]) -> None:
        """See ``Backend.set_probe``."""
        self._engine.set_probe(LEVELS.index(level), list(slots))

    def inject_fault(self, fault: Fault, slots: tuple[int, ...], layer: int) -> None:
        """See ``Backend.inject_fault``."""
        self._engine.inject_fault(FAULTS.index(fault), list(slots), layer)

    def identity(self) -> ModelIdentity:
        """See ``Backend.identity``; the file is looked at once a load."""
        if self._identity is None:
            assert self._model is not None  # asked for a loaded model only
            self._identity = ModelIdentity(fingerprint(self._model.path), self._library)
        return self._identity

    @staticmethod
    def _runs_on_cpu(model: ModelSettings) -> bool:
        if model.rpc_servers and model.n_gpu_layers != 0:
            return False
        names = model.devices or tuple(device[0] for device in _core.devices())
        return model.n_gpu_layers == 0 or set(names) == {"CPU"}

    def _host_room(self, context: ContextSettings) -> int:
        """Bytes of host memory left for recurrent states beside the live ones; -1: not the host's, or not known.

        Raises:
            EngineError: code OUT_OF_MEMORY, not even the least of them fits.
        """
        if self._file is None or self._file.memory is None or self._model is None or not self._runs_on_cpu(self._model):
            return -1  # what a device has room for, its driver says without ending the process
        slot = self._file.memory.slot(max(1, context.n_ctx), self._n_draft(context), 0)
        state_bytes = self._file.memory.recurrent_bytes if self._n_draft(context) else 0
        n_more = self._n_draft(context) if context.checkpoint is CheckpointMode.ROLLBACK else 1
        available = available_bytes()
        needed_bytes = (slot.total_bytes + n_more * state_bytes) * context.n_slots
        check_fits(f"The memory of {context.n_slots} slots", needed_bytes, available)
        return -1 if available is None else available - slot.total_bytes * context.n_slots

    @property
    def _state_bytes(self) -> int:
        return 0 if self._file is None or self._file.memory is None else self._file.memory.recurrent_bytes

    def _n_draft(self, context: ContextSettings) -> int:
        if not context.use_mtp or self._file is None:
            return 0
        return self._file.mtp.longest_draft(max(0, context.n_draft_max))

    def _predict(self, context: ContextSettings, fields: dict[str, Any]) -> dict[str, int]:
        """Bytes of all slots by kind of memory, for what was granted."""
        if self._file is None or self._file.memory is None:
            return {}
        way, n_slots = fields["way_back"], fields["n_slots"]
        n_draft = fields["speculation"]["n_draft_max"]
        slot = self._file.memory.slot_with(Mechanism(way["granted"]), context.n_ctx, n_draft)
        return {
            # libllama tells the weights that the contexts work with: the assistant's where it drafts.
            "weights": self._weights_bytes(self._file) if n_draft else self._file.size_bytes,
            "kv": slot.kv_bytes * n_slots,
            "recurrent": slot.recurrent_bytes * n_slots,
            "checkpoints": slot.checkpoint_bytes * n_slots,
            "draft": slot.draft_kv_bytes * n_slots,
        }

    def _configure(self, context: ContextSettings, keep_going: Callable[[], bool]) -> dict[str, Any]:
        host_room = self._host_room(context)
        with with_llamas_words():
            fields: dict[str, Any] = self._engine.configure(
                n_slots=context.n_slots,
                n_ctx=context.n_ctx,
                n_draft_max=context.n_draft_max,
                use_mtp=context.use_mtp,
                checkpoint=_MODES[context.checkpoint],
                n_threads=context.n_threads,
                n_batch=context.n_batch,
                catch_up_alone=context.catch_up is CatchUp.ALONE,
                replay=_REPLAYS[context.replay],
                host_room_bytes=host_room,
                state_bytes=self._state_bytes,
                prompt_checkpoints_bytes=_budget(context.prompt_checkpoints_mib),
                prompt_checkpoint_spacing=context.prompt_checkpoint_spacing,
                prompt_cache_bytes=_budget(context.prompt_cache_mib),
                use_hooks=context.use_hooks,
                shift=context.shift,
                keep_going=keep_going,
            )
        self._predicted = self._predict(context, fields)
        return fields | {"shifts": context.shift and not fields["why_not_shift"]}

    def _report(self, fields: dict[str, Any]) -> ModelReport:
        way = dict(fields["way_back"])
        modes = list(CheckpointMode)
        way["asked"] = modes[way["asked"]]
        way["granted"] = Mechanism(way["granted"]).name.lower()
        way["calibration"] = tuple(
            TimedWay(**row | {"mechanism": Mechanism(row["mechanism"]).name.lower()}) for row in way["calibration"]
        )
        assert self._model is not None  # a report exists only of a loaded model
        assert self._file is not None
        return ModelReport(
            **fields
            | {
                "path": self._model.path,
                "description": _describe(self._file),
                "devices": tuple(fields["devices"]),
                "speculation": _speculation(fields["speculation"]),
                "way_back": WayBack(**way),
                "load_ms": self._load_ms,
                "memory": self.memory_use(),
                "library": _core.library_path(),
                "patches": tuple(_core.patches()),
            }
        )


def _budget(mib: int) -> int:
    """Bytes of host memory that may be taken: what is allowed, and at most a quarter of what is free now."""
    available = available_bytes()
    return mib << 20 if available is None else min(mib << 20, available // 4)


def _speculation(fields: dict[str, Any]) -> Speculation:
    return Speculation(**fields | {"family": _FAMILIES[fields["family"]]})


def _describe(file: ModelFile) -> str:
    """The model's name, size and main type, such as ``Qwen3.5 4B, 4.21 B parameters, Q4_K``."""
    sizes = ((1e12, "T"), (1e9, "B"), (1e6, "M"))
    size = next((f"{file.n_params / unit:.3g} {name}" for unit, name in sizes if file.n_params >= unit), "")
    kind = file.types[0][0] if file.types else "no weights"
    return f"{file.name or file.path.stem}, {size or f'{file.n_params:,}'} parameters, {kind}"


def _slot_result(fields: dict[str, Any]) -> SlotResult:
    return SlotResult(
        **fields
        | {
            "text": fields["text"].decode("utf-8", "replace"),
            "tokens": tuple(fields["tokens"]),
            "accepted_at": tuple(fields["accepted_at"]),
            "drafted_at": tuple(fields["drafted_at"]),
            "stop": StopReason(fields["stop"]).name.lower(),
            "reuse": Reuse(fields["reuse"]).name.lower(),
        }
    )
