"""A topic of its own for each test of this folder, and what reads and writes it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient

from canary.kafka.topic_creation import ensure_topic
from tests.support.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from canary.lab import Lab

_numbers = itertools.count()


@pytest.fixture
def inbox() -> Recording:
    return Recording()


@pytest.fixture
def config(lab: Lab) -> dict[str, object]:
    return {"bootstrap.servers": lab.bootstrap}


@pytest.fixture
def admin(config: dict[str, Any]) -> AdminClient:
    return AdminClient(config)


@pytest.fixture
def topic(admin: AdminClient) -> str:
    name = f"canary-{next(_numbers)}"
    ensure_topic(admin, name, 3, 3, {"min.insync.replicas": "2"}, timeout_s=60)
    return name


@pytest.fixture
def started() -> Iterator[Callable[[Any], Any]]:
    """A function that starts a part; all of them are stopped afterwards."""
    parts: list[Any] = []

    def start(part: Any) -> Any:
        part.start()
        parts.append(part)
        return part

    yield start
    for part in parts:
        part.ask_stop()
    assert [part.name for part in parts if not part.stop(60)] == []
