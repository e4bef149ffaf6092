"""The export of a run in a thread of its own, watched from the frame clock."""

from __future__ import annotations

import threading
from pathlib import Path

from draftscope.session.run_record import TraceSnapshot


class ExportJob:
    """Writes a trace in one format.

    Any thread may read ``fraction``, ``is_done``, ``error``, ``is_cancelled`` and, once it is done, ``size_bytes``.
    """

    def __init__(self, snapshot: TraceSnapshot, format_id: str, path: Path, *, with_text: bool) -> None:
        self.format_id = format_id
        self.path = path
        self.fraction = 0.0
        self.error = ""
        self.size_bytes = 0
        self._with_text = with_text
        self._snapshot = snapshot
        self._cancel = threading.Event()
        self._thread = threading.Thread(target=self._run, name="export", daemon=True)
        self._is_done = threading.Event()

    @property
    def is_done(self) -> bool:
        """Whether the thread has ended its work: written, failed or cancelled."""
        return self._is_done.is_set()

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody asked to stop."""
        return self._cancel.is_set()

    def start(self) -> None:
        """Start writing."""
        self._thread.start()

    def cancel(self) -> None:
        """Stop soon; the file begun is removed."""
        self._cancel.set()

    def join(self) -> None:
        """Wait for the end of the thread."""
        self._thread.join()

    def _run(self) -> None:
        # Imported here: only those who export pay for it, and not before the window is shown.
        from draftscope.trace.errors import TraceCancelled, TraceError
        from draftscope.trace.export import formats

        try:
            formats.export_trace(
                self.format_id,
                self._snapshot.trace(),
                self.path,
                with_text=self._with_text,
                progress=self._note,
                cancelled=self._cancel.is_set,
            )
            self.size_bytes = formats.size_of(self.path)
        except TraceCancelled:
            self._cancel.set()
        except TraceError as error:
            self.error = str(error)
        except OSError as error:
            self.error = f"{error.strerror or error}: {error.filename or self.path}."
        except Exception as error:  # the thread must not end without a word
            self.error = f"{type(error).__name__}: {error}"
        finally:
            self._is_done.set()

    def _note(self, fraction: float) -> None:
        self.fraction = fraction
