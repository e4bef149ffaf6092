"""The engine process: a ``Host`` on pipes. Started by ``worker_process``; not meant to be started by hand."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable

from draftscope.engine.backends import backend_maker
from draftscope.engine.codec import encode
from draftscope.engine.engine_log import forwarded_log
from draftscope.engine.host import Host
from draftscope.engine.protocol import Answer
from draftscope.engine.ring import RingWriter
from draftscope.engine.shared_memory import attach
from draftscope.engine.spawning import die_with_parent, take_answer_channel


def main(arguments: list[str]) -> None:
    """Run an engine until a Shutdown, or until the parent is gone.

    Args:
        arguments: address of the ring's memory, name of the backend.
    """
    address, backend = arguments
    channel = take_answer_channel()
    die_with_parent()
    memory = memoryview(attach(address))
    answer = _sender(channel)
    make_backend = backend_maker(backend)
    host = Host(lambda: make_backend(memory), answer, RingWriter(memory).beat)
    try:
        with forwarded_log(answer):
            threading.Thread(target=_read_commands, args=(host,), name="draftscope-reader", daemon=True).start()
            host.run()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    # Not by way of the interpreter's own end: the reader is still inside a read, and libraries of GPUs are known to
    # crash in their destructors.
    os._exit(0)


def _sender(channel: int) -> Callable[[Answer], None]:
    lock = threading.Lock()

    def send(answer: Answer) -> None:
        data = memoryview(encode(answer) + b"\n")
        with lock:
            while data:
                try:
                    data = data[os.write(channel, data) :]
                except BrokenPipeError:
                    os._exit(1)

    return send


def _read_commands(host: Host) -> None:
    """Give every line to the host. At the end of the pipe the parent is gone, and the process ends."""
    try:
        with open(0, "rb", closefd=False) as commands:
            for line in commands:
                host.receive(line)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
