"""llama.cpp through llama-cpp-python's bindings, for verify.py: both contexts of an MTP model, one sequence."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np
from llama_cpp import llama_cpp as lib
from llama_cpp import llama_cpp_ext as staging
from numpy.typing import NDArray

Rows = NDArray[np.float32]


@lib.llama_log_callback  # type: ignore[untyped-decorator]
def _log(level: int, text: bytes, _: Any) -> None:
    """Show errors only; texts may be cut inside a character."""
    if level == _ERROR:
        print(text.decode("utf-8", "replace"), end="", file=sys.stderr)


lib.llama_log_set(_log, None)

_N_CTX = 512
_DECODE = 1
_MTP_CONTEXT = 1
_F32 = 0
_ERROR = 4


class LlamaRunner:
    """A loaded file. ``n_rs_seq``: steps that the recurrent state can go back; 0 for checkpoints only."""

    def __init__(self, path: str, n_rs_seq: int) -> None:
        params = lib.llama_model_default_params()
        params.load_mtp = True  # else the MTP tensors are left out
        self.model: Any = lib.llama_model_load_from_file(path.encode(), params)
        if not self.model:
            raise SystemExit(f"llama.cpp could not load {path}.")
        self.vocab: Any = lib.llama_model_get_vocab(self.model)
        self.n_vocab = lib.llama_vocab_n_tokens(self.vocab)
        self.n_embd = lib.llama_model_n_embd(self.model)
        context = lib.llama_context_default_params()
        context.n_ctx = context.n_batch = context.n_ubatch = _N_CTX
        context.n_rs_seq = n_rs_seq
        context.n_threads = context.n_threads_batch = 2
        context.type_k = context.type_v = _F32  # for exact comparison
        self.target: Any = lib.llama_init_from_model(self.model, context)
        staging.llama_set_embeddings_nextn(self.target, True, False)
        context.ctx_type, context.n_rs_seq, context.ctx_other = _MTP_CONTEXT, 0, self.target
        self.draft: Any = lib.llama_init_from_model(self.model, context)
        staging.llama_set_embeddings_nextn(self.draft, True, True)
        self._batches = {id(c): lib.llama_batch_ext_init(c) for c in (self.target, self.draft)}

    def tokenize(self, text: str) -> list[int]:
        """Token ids; special tokens are recognised."""
        data = text.encode()
        buffer = (lib.llama_token * (len(data) + 8))()
        n = lib.llama_tokenize(self.vocab, data, len(data), buffer, len(buffer), False, True)
        return list(buffer[:n])

    def trunk(self, ids: list[int], start: int = 0) -> tuple[Rows, Rows]:
        """Decode in the target: logits (T, n_vocab) and hidden rows (T, n_embd)."""
        return self._run(self.target, ids, start, None)

    def mtp(self, ids: list[int], rows: Rows, start: int = 0) -> tuple[Rows, Rows]:
        """Decode (token, hidden row of the position before) in the MTP context."""
        return self._run(self.draft, ids, start, rows)

    def drop_tail(self, context: Any, start: int) -> bool:
        """Remove the positions from ``start`` on; False when the context cannot."""
        return bool(lib.llama_memory_seq_rm(lib.llama_get_memory(context), 0, start, -1))

    def clear(self) -> None:
        """Forget everything in both contexts."""
        for context in (self.target, self.draft):
            lib.llama_memory_clear(lib.llama_get_memory(context), True)

    def save_state(self) -> Any:
        """The recurrent state alone, as a buffer."""
        size = lib.llama_state_seq_get_size_ext(self.target, 0, lib.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY)
        buffer = (ctypes.c_uint8 * size)()
        flags = lib.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
        if lib.llama_state_seq_get_data_ext(self.target, buffer, size, 0, flags) != size:
            raise SystemExit("llama.cpp could not save the state.")
        return buffer

    def restore_state(self, buffer: Any) -> None:
        """Put a saved state back."""
        flags = lib.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
        if lib.llama_state_seq_set_data_ext(self.target, buffer, len(buffer), 0, flags) != len(buffer):
            raise SystemExit("llama.cpp could not restore the state.")

    def _run(self, context: Any, ids: list[int], start: int, rows: Rows | None) -> tuple[Rows, Rows]:
        batch = self._batches[id(context)]
        lib.llama_batch_ext_clear(batch)
        kept = []  # the batch borrows the rows until it is processed
        for i, token in enumerate(ids):
            index = lib.llama_batch_ext_add_token(batch, 0, int(token))
            lib.llama_batch_ext_set_pos(batch, index, (lib.llama_pos * 4)(start + i))
            lib.llama_batch_ext_set_output_logits(batch, index, True)
            if rows is not None:
                row = np.ascontiguousarray(rows[i], dtype=np.float32)
                kept.append(row)
                pointer = row.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
                lib.llama_batch_ext_set_embd_token(batch, index, lib.llama_embd(pointer, 1, len(row)))
        if (code := lib.llama_process(context, _DECODE, batch)) != 0:
            raise SystemExit(f"llama.cpp could not decode: code {code}.")
        logits = _floats(lib.llama_get_logits(context), len(ids), self.n_vocab)
        return logits, _floats(staging.llama_get_embeddings_nextn(context), len(ids), self.n_embd)


def _floats(pointer: Any, n_rows: int, n_columns: int) -> Rows:
    typed = ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float))
    return np.ctypeslib.as_array(typed, (n_rows, n_columns)).copy()
