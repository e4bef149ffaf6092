"""libllama alone, without the engine's guards: what the tests of our patches call. A wrong call may end the process."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import llama_cpp
import numpy as np
from numpy.typing import NDArray

PARTIAL = llama_cpp.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
ON_DEVICE = llama_cpp.LLAMA_STATE_SEQ_FLAGS_ON_DEVICE
_lib = llama_cpp.llama_cpp._lib
# Staging functions, which have C++ linkage.
_set_nextn = _lib._Z26llama_set_embeddings_nextnP13llama_contextbb
_set_nextn.argtypes, _set_nextn.restype = [ctypes.c_void_p, ctypes.c_bool, ctypes.c_bool], None
_set_head = _lib._Z28llama_set_nextn_layer_offsetP13llama_contexti
_set_head.argtypes, _set_head.restype = [ctypes.c_void_p, ctypes.c_int32], None
_nextn_row = _lib._Z30llama_get_embeddings_nextn_ithP13llama_contexti
_lib.ggml_get_name.argtypes, _lib.ggml_get_name.restype = [ctypes.c_void_p], ctypes.c_char_p
_lib.ggml_nrows.argtypes, _lib.ggml_nrows.restype = [ctypes.c_void_p], ctypes.c_int64
_nextn_row.argtypes, _nextn_row.restype = [ctypes.c_void_p, ctypes.c_int32], ctypes.POINTER(ctypes.c_float)


@dataclass(frozen=True)
class Row:
    """One token of a batch; ``hidden`` is the row that an MTP context wants, float32 (E,)."""

    seq: int
    token: int
    position: int
    is_output: bool = True
    hidden: NDArray[np.float32] | None = None


def tokens_of(seq: int, n: int, first: int = 0) -> list[int]:
    """Tokens for positions first to first + n of a sequence, within a vocabulary of 200; the same in every call."""
    return [((first + i) * 37 + seq * 11) % 190 + 5 for i in range(n)]


def rows_of(seq: int, n: int, first: int = 0) -> list[Row]:
    """Rows for positions first to first + n of a sequence."""
    return [Row(seq, token, first + i) for i, token in enumerate(tokens_of(seq, n, first))]


def load(path: Path, *, load_mtp: bool = True, device: int | None = None) -> int | None:
    """The model's handle, on a device or the default ones; None when libllama refuses the file.

    Never freed: the process ends soon.
    """
    params = llama_cpp.llama_model_default_params()
    params.load_mtp = load_mtp
    if device is not None:
        devices = (ctypes.c_void_p * 2)(device, None)
        params.devices, params.n_gpu_layers = ctypes.addressof(devices), -1
    model: int | None = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    return model


def _watcher(watch: Callable[[str, int], None]) -> Callable[[int, bool, int | None], bool]:
    def see(node: int, is_before: bool, _data: int | None) -> bool:
        if is_before:
            watch(_lib.ggml_get_name(node).decode(), int(_lib.ggml_nrows(node)))
        return False  # the values do not matter

    return see


class Context:
    """A context of one model; an MTP context when it is made for a target.

    Args:
        watch: is told name and number of rows of each node of a graph before it is computed.
    Raises:
        RuntimeError: libllama refused to make it.
    """

    def __init__(
        self,
        model: int,
        *,
        n_seq: int = 1,
        n_rs_seq: int = 0,
        unified: bool = False,
        target: Context | None = None,
        watch: Callable[[str, int], None] | None = None,
    ) -> None:
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_seq_max, params.n_rs_seq, params.kv_unified = 256 * n_seq, n_seq, n_rs_seq, unified
        params.n_threads = params.n_threads_batch = 1
        if target is not None:
            params.ctx_type, params.ctx_other = llama_cpp.LLAMA_CONTEXT_TYPE_MTP, target.handle
        if watch is not None:
            self._watch = params.cb_eval = llama_cpp.llama_cpp.ggml_backend_sched_eval_callback(_watcher(watch))
        handle = llama_cpp.llama_init_from_model(model, params)
        if handle is None:
            raise RuntimeError("no context")
        self.handle: int = handle
        self.memory = llama_cpp.llama_get_memory(handle)
        self.n_vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
        self.n_embd = llama_cpp.llama_model_n_embd_out(model)

    @property
    def n_rs_seq(self) -> int:
        """Steps back that were granted."""
        return int(llama_cpp.llama_n_rs_seq(self.handle))

    @property
    def n_reused(self) -> int:
        """Decodes that found their graph ready."""
        return int(llama_cpp.llama_perf_context(self.handle).n_reused)

    def decode(self, rows: Iterable[Row]) -> None:
        """Decode all rows in one call.

        Raises:
            RuntimeError: it failed.
        """
        batch = llama_cpp.llama_batch_ext_init(self.handle)
        kept = []
        for row in rows:
            index = llama_cpp.llama_batch_ext_add_token(batch, row.seq, row.token)
            llama_cpp.llama_batch_ext_set_pos(batch, index, ctypes.byref(ctypes.c_int32(row.position)))
            llama_cpp.llama_batch_ext_set_output_logits(batch, index, row.is_output)
            if row.hidden is not None:
                kept.append(np.ascontiguousarray(row.hidden, dtype=np.float32))
                data = kept[-1].ctypes.data_as(ctypes.POINTER(ctypes.c_float))
                embedding = llama_cpp.llama_cpp.llama_embd(data, 1, len(kept[-1]))
                llama_cpp.llama_batch_ext_set_embd_token(batch, index, embedding)
        status = llama_cpp.llama_process(self.handle, llama_cpp.LLAMA_PROCESS_TYPE_DECODE, batch)
        llama_cpp.llama_batch_ext_free(batch)
        if status != 0:
            raise RuntimeError(f"decode: {status}")

    def logits(self, index: int = -1) -> NDArray[np.float32]:
        """Logits of a row of the last decode, float32 (V,), a copy."""
        return np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(self.handle, index), (self.n_vocab,)).copy()

    def keep_hidden_rows(self, *, masked: bool) -> None:
        """Keep the hidden rows of the outputs alone (masked), or of all tokens."""
        _set_nextn(self.handle, True, masked)

    def choose_head(self, head: int) -> None:
        """Decode with one of chained MTP heads from now on."""
        _set_head(self.handle, head)

    def hidden(self, index: int) -> NDArray[np.float32]:
        """Hidden row of a row of the last decode, float32 (E,), a copy."""
        return np.ctypeslib.as_array(_nextn_row(self.handle, index), (self.n_embd,)).copy()

    def remove_from(self, seq: int, position: int) -> bool:
        """Drop a sequence's tokens from a position on."""
        return bool(llama_cpp.llama_memory_seq_rm(self.memory, seq, position, -1))

    def copy(self, source: int, target: int) -> None:
        """Let a sequence be what another is."""
        llama_cpp.llama_memory_seq_cp(self.memory, source, target, -1, -1)

    def last_position(self, seq: int) -> int:
        """The newest position that the memory holds of a sequence; -1 when empty."""
        return int(llama_cpp.llama_memory_seq_pos_max(self.memory, seq))

    def clear(self) -> None:
        """Forget all sequences."""
        llama_cpp.llama_memory_clear(self.memory, True)

    def save(self, seq: int, flags: int, *, room: int | None = None) -> bytes:
        """A sequence's state, into a buffer of its size or of ``room`` bytes; empty when libllama refused."""
        size = llama_cpp.llama_state_seq_get_size_ext(self.handle, seq, flags) if room is None else room
        buffer = (ctypes.c_uint8 * size)()
        written = llama_cpp.llama_state_seq_get_data_ext(self.handle, buffer, size, seq, flags)
        return bytes(buffer[:written])

    def restore(self, seq: int, state: bytes, flags: int) -> bool:
        """Put a state back; whether libllama took it."""
        buffer = (ctypes.c_uint8 * len(state)).from_buffer_copy(state)
        return bool(llama_cpp.llama_state_seq_set_data_ext(self.handle, buffer, len(state), seq, flags))

    def free(self) -> None:
        """End it; nothing else may be called afterwards."""
        llama_cpp.llama_free(self.handle)
