"""Clients whose token is refused at once: that is told, and tried again until told to stop."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from canary.kafka.opening import opened, opened_in_time

if TYPE_CHECKING:
    from collections.abc import Callable


def failing(code: int, times: int) -> Callable[[], str]:
    """Return what raises so many times before it makes a client."""
    left = iter(range(times))

    def make() -> str:
        if next(left, None) is not None:
            raise KafkaException(KafkaError(code))
        return "client"

    return make


def test_a_refused_client_is_told_and_made_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("canary.kafka.opening._AGAIN_S", 0.0)
    told: list[KafkaError] = []
    make = failing(KafkaError.SASL_AUTHENTICATION_FAILED, 2)
    assert opened_in_time(make, told.append, threading.Event()) == "client"
    assert [error.name() for error in told] == ["SASL_AUTHENTICATION_FAILED"] * 2


def test_whoever_is_told_to_stop_does_not_go_on_trying() -> None:
    stopping = threading.Event()
    refused = failing(KafkaError.SASL_AUTHENTICATION_FAILED, 1000)
    assert opened_in_time(refused, lambda _: stopping.set(), stopping) is None


def test_a_property_that_is_not_taken_is_no_refusal() -> None:
    with pytest.raises(KafkaException, match="_INVALID_ARG"):
        opened_in_time(failing(KafkaError._INVALID_ARG, 1), lambda _: None, threading.Event())


def test_a_consumer_with_a_token_that_has_run_out_says_so() -> None:
    """As confluent-kafka is: it waits ten seconds for a token, and calls error_cb while it raises."""
    config = {
        "bootstrap.servers": "127.0.0.1:1",
        "group.id": "g",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "OAUTHBEARER",
        "oauth_cb": lambda _: ("e30.e30.", time.time() - 10),
        "error_cb": lambda _: None,
        "log_level": 0,
    }
    with pytest.raises(KafkaException) as raised:
        opened(lambda: Consumer(config))
    assert raised.value.args[0].code() == KafkaError.SASL_AUTHENTICATION_FAILED
