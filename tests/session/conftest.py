"""A session on a scripted client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from draftscope.session.session import Session
from tests.session.scripted_client import ScriptedClient


@pytest.fixture
def client() -> ScriptedClient:
    return ScriptedClient()


@pytest.fixture
def session(client: ScriptedClient, qtbot: QtBot) -> Iterator[Session]:
    session = Session(client)
    yield session
    session.close()


@pytest.fixture
def ready(session: Session, client: ScriptedClient) -> Session:
    """The session with a model loaded for two slots."""
    from tests.session.scripted_client import request

    session.open_model("m.gguf", request().context)
    client.answer_load()
    session.poll()
    return session
