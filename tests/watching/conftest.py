"""What the tests of this folder watch, and with what."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.support.recording import Recording

if TYPE_CHECKING:
    from canary.lab import Lab

_numbers = itertools.count()


@pytest.fixture
def inbox() -> Recording:
    return Recording()


@pytest.fixture
def config(lab: Lab) -> dict[str, Any]:
    return {"bootstrap.servers": lab.bootstrap}


@pytest.fixture
def admin(config: dict[str, Any]) -> AdminClient:
    return AdminClient(config)


@pytest.fixture
def topic() -> str:
    return f"watched-{next(_numbers)}"
