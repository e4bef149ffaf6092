"""One window a user: a second start hands its file to the first and ends."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

WAIT_MS = 800
"""How long a second start waits for the first to answer before it opens a window of its own."""

_ANSWER = b"ok\n"


def server_name(data_dir: Path) -> str:
    """The name of the socket: one a user and settings folder, short enough for every system."""
    who = f"{os.getuid() if hasattr(os, 'getuid') else os.environ.get('USERNAME', '')}|{data_dir}"
    return f"draftscope-{hashlib.sha256(who.encode()).hexdigest()[:16]}"


def hand_over(name: str, path: Path | None) -> bool:
    """Give a file (or just the wish to be seen) to the running window; False when none answers."""
    socket = QLocalSocket()
    socket.connectToServer(name)
    if not socket.waitForConnected(WAIT_MS):
        return False
    message = json.dumps({"path": None if path is None else str(path.absolute())}).encode() + b"\n"
    socket.write(message)
    socket.flush()
    answer = bytes(socket.readAll().data()) if socket.waitForReadyRead(WAIT_MS) else b""
    socket.disconnectFromServer()
    return answer == _ANSWER


def _answers(name: str) -> bool:
    socket = QLocalSocket()
    socket.connectToServer(name)
    answers = socket.waitForConnected(WAIT_MS)
    socket.abort()
    return answers


class SingleInstance(QObject):
    """The socket of the running window; only its own user can connect."""

    asked = Signal(object)
    """A second start: carries the ``Path`` it was given, or None."""

    def __init__(self, name: str, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._on_connected)
        # Asked first, since with access options Qt puts its socket over one that is in use. One that does not answer
        # was left behind by a window that was killed.
        self.is_listening = not _answers(name) and QLocalServer.removeServer(name) and self._server.listen(name)

    def close(self) -> None:
        """Stop listening and take the socket away."""
        self._server.close()

    def _on_connected(self) -> None:
        while (socket := self._server.nextPendingConnection()) is not None:
            socket.readyRead.connect(lambda socket=socket: self._read(socket))
            socket.disconnected.connect(socket.deleteLater)
            self._read(socket)

    def _read(self, socket: QLocalSocket) -> None:
        if not socket.canReadLine():
            return
        line = bytes(socket.readLine().data())
        try:
            path = json.loads(line)["path"]
        except (ValueError, KeyError, TypeError):
            socket.abort()
            return
        socket.write(_ANSWER)
        socket.flush()
        self.asked.emit(Path(path) if isinstance(path, str) else None)
