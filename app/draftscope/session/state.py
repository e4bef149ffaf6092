"""The states of a session, and what may be asked for in each."""

from __future__ import annotations

from enum import Enum


class SessionState(Enum):
    """Where the session stands. LOADING: one command is in flight; RUNNING, STOPPING: one or more Submits are.

    ::

        NO_MODEL --open_model--> LOADING --Loaded--> READY --run--> RUNNING --Finished, Failed--> READY
                                 |  ^  ^               |              |
                 Cancelled,      |  |  +--run with-----+              +--stop--> STOPPING --Finished, Failed--> READY
                 Failed          v  |     other contexts (Configure)
                            NO_MODEL|
                                    |
        any --EngineDied--> ENGINE_DIED --restart_engine--> LOADING (the model that was loaded) or NO_MODEL

    In RUNNING another slot may begin a turn of its conversation; RUNNING ends when the last Submit is closed.
    A failed Configure leads back to READY: the model is still there. ``open_model`` while a run goes on stops the run
    first and loads when it has ended. The engine is restarted by itself unless it died without ever having answered.
    Commands on slots are no states: see ``slots``. SAVED is none of a session: it is that of a run from a file.
    """

    NO_MODEL = "no model"
    LOADING = "loading"
    READY = "ready"
    RUNNING = "running"
    STOPPING = "stopping"
    ENGINE_DIED = "engine died"
    SAVED = "saved trace"

    @property
    def is_busy(self) -> bool:
        """Whether a command is in flight."""
        return self in (SessionState.LOADING, SessionState.RUNNING, SessionState.STOPPING)
