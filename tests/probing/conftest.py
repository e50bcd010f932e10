"""A real three-broker cluster for the tests of this folder, and a topic of its own for each test."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient

from canary.client.recording import Recording
from canary.lab import CONTROLLER, Lab
from canary.probing.topic import ensure_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_numbers = itertools.count()


@pytest.fixture
def inbox() -> Recording:
    return Recording()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """ELR off, so that why-fsync's loss can be made with one follower only frozen (FIELD-NOTES)."""
    directory = tmp_path_factory.mktemp("lab")
    features = {"eligible.leader.replicas.version": 0}
    with Lab(directory, features=features, die_with_parent=True) as running:
        running.wait_ready(180)
        yield running


@pytest.fixture
def healthy(lab: Lab) -> Iterator[Lab]:
    """The cluster with every broker running, before and after the test."""
    yield lab
    lab.resume(CONTROLLER)
    for broker in lab.brokers:
        lab.resume(broker) if broker in lab.alive() else lab.start_broker(broker, timeout=180)
    lab.wait_ready(180)


@pytest.fixture
def config(lab: Lab) -> dict[str, object]:
    return {"bootstrap.servers": lab.bootstrap}


@pytest.fixture
def admin(config: dict[str, Any]) -> AdminClient:
    return AdminClient(config)


@pytest.fixture
def topic(lab: Lab, admin: AdminClient) -> str:
    name = f"canary-{next(_numbers)}"
    lab.wait_ready(180)  # a broker that stalled may be out of the cluster for a moment
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
