"""llama.cpp's RPC server on the CPU as a child process, for tests: a device whose memory is not the host's."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_START_LIMIT_S = 20.0


class RpcServerProcess:
    """A server on a free port of 127.0.0.1, ready when the constructor returns. ``close`` kills it.

    Args:
        port: the port to use; 0 takes a free one.
        n_devices: how many times it offers the CPU.
        is_everywhere: listen on all addresses of this machine, not on 127.0.0.1 alone.
    """

    def __init__(self, port: int = 0, n_devices: int = 1, *, is_everywhere: bool = False) -> None:
        self.port = port or _free_port()
        self._address = "0.0.0.0" if is_everywhere else "127.0.0.1"
        self._n_devices = n_devices
        self._start()

    def _start(self) -> None:
        command = [
            sys.executable,
            "-S",
            __file__,
            _library_folder(),
            f"{self._address}:{self.port}",
            str(self._n_devices),
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline_s = time.monotonic() + _START_LIMIT_S
        while not self._listens():
            assert self.process.poll() is None, "the RPC server has ended"
            assert time.monotonic() < deadline_s, "the RPC server does not listen"
            time.sleep(0.01)

    def _listens(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    @property
    def name(self) -> str:
        """``HOST:PORT``."""
        return f"127.0.0.1:{self.port}"

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def restart(self, n_devices: int | None = None) -> None:
        """Kill it and start it again on the same port."""
        self.kill()
        self._n_devices = n_devices or self._n_devices
        self._start()

    def close(self) -> None:
        """End it; harmless when it has ended."""
        self.process.kill()
        self.process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _library_folder() -> str:
    spec = importlib.util.find_spec("llama_cpp")
    assert spec is not None and spec.origin is not None
    return str(Path(spec.origin).parent / "lib")


def _serve(folder: str, endpoint: str, n_devices: str) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for name in ("ggml-base", "ggml-cpu", "ggml-rpc"):
        ctypes.CDLL(f"{folder}/lib{name}.so", mode=ctypes.RTLD_GLOBAL)
    ggml = ctypes.CDLL(f"{folder}/libggml.so", mode=ctypes.RTLD_GLOBAL)
    ggml.ggml_backend_dev_by_name.restype = ctypes.c_void_p
    cpu = ggml.ggml_backend_dev_by_name(b"CPU")
    devices = (ctypes.c_void_p * int(n_devices))(*[cpu] * int(n_devices))
    start = ctypes.CDLL(f"{folder}/libggml-rpc.so").ggml_backend_rpc_start_server
    start.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p]
    start(endpoint.encode(), None, 1, len(devices), devices)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
