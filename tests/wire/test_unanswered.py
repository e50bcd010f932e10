"""A request whose answer never comes, because its connection was lost before it was sent, ends all the same."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import UnknownBrokerIdError
from kafka.future import Future
from kafka.net.selector import NetworkSelector

from canary.wire.client import _Manager, asked
from canary.wire.errors import WireError
from canary.wire.fetch import fetch


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


def test_a_broker_whose_quota_is_used_up_is_asked_when_it_may_be_and_an_empty_answer_is_no_answer() -> None:
    net = NetworkSelector(client_id="t")
    manager: Any = _Manager(net, bootstrap_servers=["127.0.0.1:1"], request_timeout_ms=20_000)
    connection = SimpleNamespace(paused={"throttle"}, _throttle_time=time.monotonic() + 0.05)
    manager._conns[1] = connection
    held = SimpleNamespace(
        error_code=0,
        preferred_read_replica=-1,
        high_watermark=7,
        last_stable_offset=7,
        log_start_offset=0,
        records=b"",
    )
    answers = [
        SimpleNamespace(error_code=0, throttle_time_ms=50, responses=[]),
        SimpleNamespace(error_code=0, throttle_time_ms=0, responses=[SimpleNamespace(partitions=[held])]),
    ]

    def send(_request: Any, _broker: int) -> Any:
        assert not connection.paused, "the library fails what is asked meanwhile"
        return Future().success(answers.pop(0))

    net.call_at(connection._throttle_time, lambda: connection.paused.clear())  # noqa: PLW0108  # the library wants a function of Python
    manager.send = send
    try:
        assert fetch(SimpleNamespace(_manager=manager), "orders", 0, 1, 7).high_watermark == 7
    finally:
        del manager._conns[1]
        manager.close()
