"""A real three-broker cluster for the tests of this folder."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient

from canary.client.recording import Recording
from canary.lab import Lab

if TYPE_CHECKING:
    from collections.abc import Iterator

_numbers = itertools.count()


@pytest.fixture
def inbox() -> Recording:
    return Recording()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("lab"), die_with_parent=True) as running:
        running.wait_ready(180)
        yield running


@pytest.fixture
def healthy(lab: Lab) -> Iterator[Lab]:
    """The cluster with every broker running, before and after the test."""
    yield lab
    for broker in lab.brokers:
        lab.resume(broker) if broker in lab.alive() else lab.start_broker(broker, timeout=180)
    lab.wait_ready(180)


@pytest.fixture
def config(lab: Lab) -> dict[str, Any]:
    return {"bootstrap.servers": lab.bootstrap}


@pytest.fixture
def admin(config: dict[str, Any]) -> AdminClient:
    return AdminClient(config)


@pytest.fixture
def topic() -> str:
    return f"watched-{next(_numbers)}"
