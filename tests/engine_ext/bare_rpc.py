"""llama.cpp's RPC client alone, without the engine's guards: a server's device, and what is sent to a server."""

from __future__ import annotations

import ctypes
import socket
import threading
from collections import Counter

import llama_cpp

COPY_TENSOR, GRAPH_COMPUTE = 9, 10
"""Messages of the protocol."""

_HEADER_BYTES = 9
_lib = llama_cpp.llama_cpp._lib
_lib.ggml_backend_rpc_add_server.argtypes = [ctypes.c_char_p]
_lib.ggml_backend_rpc_add_server.restype = ctypes.c_void_p
_lib.ggml_backend_reg_dev_get.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_lib.ggml_backend_reg_dev_get.restype = ctypes.c_void_p
_lib.ggml_backend_dev_memory.argtypes = [ctypes.c_void_p] * 3


def device_of(name: str) -> int:
    """The handle of the first device of the server at ``HOST:PORT``, which must listen; else the process ends."""
    registered = _lib.ggml_backend_rpc_add_server(name.encode())
    return int(_lib.ggml_backend_reg_dev_get(registered, 0))


def wait_for(device: int) -> None:
    """Return when the device's server has done all that it was sent: one question, whose answer comes last."""
    n_free, n_total = ctypes.c_size_t(), ctypes.c_size_t()
    _lib.ggml_backend_dev_memory(device, ctypes.byref(n_free), ctypes.byref(n_total))


class CountedMessages:
    """Carries one connection to a server and counts the messages to it. Its threads end with the process.

    Attributes:
        name: the ``HOST:PORT`` to connect to.
        counts: how many came of each message; complete after ``wait_for``.
    """

    def __init__(self, port: int) -> None:
        self.counts: Counter[int] = Counter()
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.name = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            client = self._listener.accept()[0]
            server = socket.create_connection(("127.0.0.1", self._port))
            threading.Thread(target=self._carry_messages, args=(client, server), daemon=True).start()
            threading.Thread(target=self._carry_answers, args=(server, client), daemon=True).start()

    def _carry_messages(self, client: socket.socket, server: socket.socket) -> None:
        reader = client.makefile("rb")
        while len(header := reader.read(_HEADER_BYTES)) == _HEADER_BYTES:
            self.counts[header[0]] += 1
            server.sendall(header + reader.read(int.from_bytes(header[1:], "little")))
        server.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def _carry_answers(server: socket.socket, client: socket.socket) -> None:
        while data := server.recv(1 << 16):
            client.sendall(data)
