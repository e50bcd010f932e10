"""A request whose answer never comes, because its connection was lost before it was sent, ends all the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.future import Future
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from canary.wire.client import asked
from canary.wire.errors import WireError


def test_a_request_that_is_never_answered_is_given_up() -> None:
    net = NetworkSelector(client_id="t")
    manager: Any = KafkaConnectionManager(net, bootstrap_servers=["127.0.0.1:1"], request_timeout_ms=50)
    manager.send = lambda *_: Future()
    try:
        with pytest.raises(WireError, match="Timed out"):
            asked(SimpleNamespace(_manager=manager), object(), 1)
    finally:
        manager.close()
