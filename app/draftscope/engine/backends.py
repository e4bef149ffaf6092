"""Backends by name, imported only where they run.

``native`` is the C++ core. ``fake`` is the scripted engine; ``fake:N`` lets it make about N rounds per second (0: as
fast as it can).
"""

from __future__ import annotations

from collections.abc import Callable

from draftscope.engine.backend import Backend
from draftscope.engine.errors import EngineError, ErrorCode

BackendMaker = Callable[[memoryview], Backend]
"""Makes a backend that writes its records into the ring in this memory."""


def backend_maker(name: str, *, in_process: bool = False) -> BackendMaker:
    """How to make the backend of this name; nothing is imported before it is called.

    Args:
        name: see the module.
        in_process: it will run in the caller's process, so that a scripted death must not be a real one.

    Raises:
        EngineError: BAD_SETTINGS, when there is no such backend.
    """
    kind, _, rate = name.partition(":")
    if name == "native":
        return _make_native
    if kind == "fake":
        try:
            rounds_per_second = float(rate or "60")
        except ValueError:
            rounds_per_second = -1.0
        if rounds_per_second >= 0:
            return lambda memory: _make_fake(memory, rounds_per_second, in_process)
    raise EngineError(ErrorCode.BAD_SETTINGS, f"There is no engine named {name!r}.", "Name native, fake or fake:60.")


def _make_native(memory: memoryview) -> Backend:
    try:
        from draftscope.engine.native import NativeBackend
    except ImportError as error:
        what = f"The engine could not be loaded: {error}."
        raise EngineError(ErrorCode.ENGINE_MISSING, what, "'draftscope doctor' says what is missing.") from error
    return NativeBackend(memory)


def _make_fake(memory: memoryview, rounds_per_second: float, in_process: bool) -> Backend:
    from draftscope.engine.fake import FakeBackend, end_thread, kill_process

    return FakeBackend(memory, rounds_per_second=rounds_per_second, die=end_thread if in_process else kill_process)
