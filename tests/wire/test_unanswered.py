"""A request whose answer never comes, because its connection was lost before it was sent, ends all the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import UnknownBrokerIdError
from kafka.future import Future
from kafka.net.selector import NetworkSelector

from canary.wire.client import _Manager, asked
from canary.wire.errors import WireError


def test_a_request_that_is_never_answered_is_given_up() -> None:
    net = NetworkSelector(client_id="t")
    manager: Any = _Manager(net, bootstrap_servers=["127.0.0.1:1"], request_timeout_ms=50)
    manager.send = lambda *_: Future()
    try:
        with pytest.raises(WireError, match="Timed out"):
            asked(SimpleNamespace(_manager=manager), object(), 1)
    finally:
        manager.close()


def test_a_broker_that_was_away_when_brokers_were_asked_for_is_asked_for_anew() -> None:
    net = NetworkSelector(client_id="t")
    manager: Any = _Manager(net, bootstrap_servers=["127.0.0.1:1"])
    known: set[int] = set()

    async def refresh() -> None:
        known.add(1)

    def send(_request: Any, broker: int) -> Any:
        if broker not in known:
            raise UnknownBrokerIdError(broker)
        return Future().success("the answer")

    manager.send, manager.cluster.refresh_metadata = send, refresh
    try:
        assert asked(SimpleNamespace(_manager=manager), object(), 1) == "the answer"
        with pytest.raises(WireError, match="UnknownBrokerId"):
            asked(SimpleNamespace(_manager=manager), object(), 2)
    finally:
        manager.close()
