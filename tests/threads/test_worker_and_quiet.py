"""Threads end when told to, and clients do not fill the log."""

from __future__ import annotations

import threading
import time

import structlog
from confluent_kafka import KafkaError

from canary.facts import ClientError
from canary.kafka.quiet import ErrorReporter, Gate, calm, quiet_logger
from canary.threads.ports import SteadyClock
from canary.threads.worker import Worker
from tests.support.recording import Recording
from tests.support.waiting import in_time


class Sleeper(Worker):
    def run(self) -> None:
        while self.wait(60):
            pass


class Broken(Worker):
    def run(self) -> None:
        raise ValueError("no")


def test_a_sleeping_worker_ends_at_once_when_stopped() -> None:
    worker = Sleeper("sleeper")
    worker.start()
    began = time.monotonic()
    in_time(worker.stop(30))
    assert time.monotonic() - began < 30  # it would sleep for 60
    assert not worker.alive


def test_what_ended_a_worker_is_kept_for_its_supervisor() -> None:
    worker = Broken("broken")
    with structlog.testing.capture_logs() as lines:
        worker.start()
        while worker.alive:
            threading.Event().wait(0.01)
    assert isinstance(worker.failure, ValueError)
    assert [line["event"] for line in lines] == ["worker_failed"]


def test_a_worker_that_never_began_can_be_stopped() -> None:
    assert Sleeper("sleeper").stop(1)


def test_a_reconnect_storm_is_one_line() -> None:
    logger = quiet_logger("tail")
    with structlog.testing.capture_logs() as lines:
        for _ in range(500):
            logger.error("%s [%s] %s", "FAIL", "rdkafka#1", "Connection refused")
        logger.warning("%s [%s] %s", "REQTMOUT", "rdkafka#1", "timed out")
    assert [line["event"] for line in lines] == ["kafka_client", "kafka_client"]


def test_what_was_kept_back_is_counted() -> None:
    gate = Gate(every_s=0.0)
    assert gate.admit("a") == 0
    slow = Gate(every_s=60.0)
    assert [slow.admit("a"), slow.admit("a"), slow.admit("b")] == [0, None, 0]


def test_an_error_is_evidence_once_and_a_fatal_one_is_passed_on_each_time() -> None:
    inbox, fatal = Recording(), list[str]()
    reporter = ErrorReporter("producer", inbox, SteadyClock(), on_fatal=fatal.append)
    for _ in range(3):
        reporter(KafkaError(KafkaError._ALL_BROKERS_DOWN, "3/3 brokers are down"))
        reporter(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "gone", True))
    assert [(fact.code, fact.fatal) for fact in inbox.of(ClientError)] == [
        ("_ALL_BROKERS_DOWN", False),
        ("OUT_OF_ORDER_SEQUENCE_NUMBER", True),
    ]
    assert len(fatal) == 3


def test_the_operator_overrides_what_is_calm_but_not_what_is_meant() -> None:
    config = calm({"reconnect.backoff.ms": 1, "acks": "1"}, "x", forced={"acks": "all"})
    assert (config["reconnect.backoff.ms"], config["acks"]) == (1, "all")
