"""Whatever an application does with its producer, and whatever becomes of the disk: it goes on, and no receipt lies."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future
from importlib.util import find_spec, module_from_spec
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from canary.facts.digests import digest
from canary_receipts import Producer, recorder
from canary_receipts.files import Files
from canary_receipts.recorder import MOST_MESSAGES
from canary_receipts.topic_ids import TopicIds
from tests.receipts.test_producer import MOCK, by_hand, closed, files, made, publish, rows, told
from tests.receipts.test_producer import recorder as recorder_of
from tests.support.waiting import in_time

if TYPE_CHECKING:
    from pathlib import Path


def test_a_disk_that_stalls_lets_the_application_send_and_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stalled, goes_on = threading.Event(), threading.Event()

    def stall(*_: Any) -> None:
        stalled.set()
        goes_on.wait()

    monkeypatch.setattr(Files, "_put", stall)
    monkeypatch.setattr(recorder, "CLOSING_S", 0.1)
    producer = made(tmp_path, per_second=None, rows=1000)

    def run() -> None:
        producer.produce("t", b"1")
        producer.flush()
        recorder_of(producer)._tick()
        recorder_of(producer)._full.set()  # a file is due
        stalled.wait()
        for number in range(2 * MOST_MESSAGES):
            producer.produce("t", str(number))
        producer.flush()
        producer.close()

    application = threading.Thread(target=run, daemon=True)
    application.start()
    application.join(120)
    waits = application.is_alive()
    goes_on.set()
    assert not waits
    assert "receipts are still being written" in caplog.text
    assert recorder_of(producer)._held <= 4 * 1000


def test_a_class_of_the_application_and_what_it_puts_into_the_producer_are_called_for_each_record(
    tmp_path: Path,
) -> None:
    class Own(Producer):
        sent = 0

        def produce(self, *arguments: Any, **named: Any) -> None:
            self.sent += 1
            super().produce(*arguments, **named)

    producer = Own(MOCK, receipts={"directory": tmp_path, "topic_ids": False, "per_second": 10})
    for _ in range(50):
        producer.produce("t", b"1")
    producer.close()
    assert producer.sent == 50

    patched: list[Any] = []
    plain = by_hand(tmp_path)
    plain.__dict__["produce"] = lambda *arguments: patched.append(arguments)
    plain._open(1)
    plain._shut()
    plain.produce("t", b"1")
    assert patched == [("t", b"1")]


def test_callbacks_are_those_that_the_client_would_call(tmp_path: Path) -> None:
    class Heard(list[Any]):
        """False while it is empty."""

        def __call__(self, _: Any, message: Any) -> None:
            self.append(message.value())

    default, empty, one, other = Heard(), Heard(), Heard(), Heard()
    for kind in (confluent_kafka.Producer, Producer):
        more = {"receipts": {"directory": tmp_path, "topic_ids": False}} if kind is Producer else {}
        producer = kind(MOCK | {"on_delivery": default}, **more)
        producer.produce("t", b"empty", on_delivery=empty)
        producer.produce("t", b"both", callback=one, on_delivery=other)
        producer.produce_batch("t", [{"value": b"batch"}, {"value": b"own", "callback": None}], on_delivery=one)
        producer.flush()
        assert (default, empty, sorted(one), other) == ([], [b"empty"], [b"batch", b"both", b"own"], [])
        producer.close(timeout=30.0)
        for heard in (empty, one):
            heard.clear()


def test_headers_that_an_agent_adds_beneath_are_not_known_and_neither_is_the_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Traced(confluent_kafka.Producer):  # type: ignore[misc]  # the client has no types
        """As OpenTelemetry puts one in the client's place."""

        def produce(self, topic: str, value: Any = None, *more: Any, **named: Any) -> None:
            named.setdefault("headers", []).append(("traceparent", b"00-1-2-01"))
            super().produce(topic, value, *more, **named)

    monkeypatch.setattr(confluent_kafka, "Producer", Traced)
    spec = find_spec("canary_receipts.producer")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.Producer(MOCK, receipts={"directory": tmp_path, "topic_ids": False}) as producer:
        producer.produce("t", b"1", headers=[("own", b"1")])
        producer.produce("t", b"2")
    assert [row["digest"] for row in rows(tmp_path)] == [None, None]


def test_where_the_client_tells_errors_only_it_is_said_that_there_are_no_receipts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    producer = made(tmp_path, {"delivery.report.only.error": True})
    producer.produce("t", b"1")
    producer.close()
    assert files(tmp_path) == []
    assert "no receipts are written: with delivery.report.only.error" in caplog.text


def test_messages_of_a_batch_that_is_sent_again_are_promises_of_the_transaction_they_are_sent_in(
    tmp_path: Path,
) -> None:
    producer = by_hand(tmp_path, {"transactional.id": "x", "test.mock.num.brokers": 3})
    producer.init_transactions(30)
    batch: list[dict[str, Any]] = [{"value": b"a"}, {"value": b"b"}]
    for end, left in ((producer.commit_transaction, 2), (producer.abort_transaction, 0)):
        producer._left = left
        producer.begin_transaction()
        assert producer.produce_batch("t", batch) == 2
        producer.flush()
        end(30)
    closed(producer)
    assert batch == [{"value": b"a"}, {"value": b"b"}]
    assert sorted(row["digest"] for row in rows(tmp_path)) == sorted([digest(None, b"a"), digest(None, b"b")])


@pytest.mark.parametrize(("per_second", "slots"), [(1, [0] * 9 + [1]), (15, [1, 2] * 5), (1000, [100] * 10)])
def test_a_limit_is_one_also_where_a_slot_has_less_than_a_receipt(
    per_second: int, slots: list[int], tmp_path: Path
) -> None:
    producer = by_hand(tmp_path, per_second=per_second)
    opened = []
    for _ in slots:
        producer._left = 0
        recorder_of(producer)._let()
        opened.append(producer._left)
    assert opened == slots


def test_a_file_is_published_where_the_names_of_a_folder_cannot_be_made_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = os.fsync

    def refuse(opened: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{opened}"):  # noqa: PTH112  # a link of the kernel
            raise OSError(22, "Invalid argument")
        synced(opened)

    monkeypatch.setattr(os, "fsync", refuse)
    producer = by_hand(tmp_path)
    for _ in range(2):
        producer.produce("t", b"1")
        assert publish(producer)
    assert [one["sequence"] for one in told(tmp_path)] == [0, 1]


def test_what_is_written_late_is_not_said_to_be_of_a_topic_that_was_made_anew_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = "old"

    def describe(_: Any, asked: Any, **__: Any) -> dict[str, Future[Any]]:
        answers: dict[str, Future[Any]] = {topic: Future() for topic in asked.topic_names}
        for answer in answers.values():
            answer.set_result(SimpleNamespace(topic_id=now))
        return answers

    monkeypatch.setattr(AdminClient, "describe_topics", describe)
    ids = TopicIds(MOCK)
    ids.look(["t"])
    assert ids.confirmed(["t"]) == {"t": "old"}  # and the disk is full
    now = "new"
    for _ in range(3):
        assert ids.confirmed(["t"]) == {"t": None}
    ids.published()
    assert ids.confirmed(["t"]) == {"t": "new"}


def test_a_producer_that_lives_for_less_than_a_slot_asks_for_the_ids_of_its_topics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "SLOT_S", 600.0)
    asked: list[list[str]] = []
    ids = Mock()
    ids.look = lambda topics: asked.append(list(topics))
    ids.confirmed = lambda topics: dict.fromkeys(topics, "id" if asked else None)
    producer = Producer(MOCK, receipts={"directory": tmp_path, "topic_ids": False})
    assert producer._recorder is not None
    producer._recorder._topic_ids = ids
    producer.produce("t", b"v")
    in_time(producer.flush(30) == 0, "all acknowledgements")
    producer.close()
    (said,) = told(tmp_path)
    assert (asked, said["topic_ids"]) == ([["t"]], {"t": "id"})
