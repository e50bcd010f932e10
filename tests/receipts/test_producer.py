"""Receipts say what was acknowledged, never more; the application never notices them."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import unquote

import confluent_kafka
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError, KafkaException

from canary.facts.digests import digest
from canary_receipts import Options, Producer
from canary_receipts.files import METADATA, SCHEMA, Files
from canary_receipts.recorder import Recorder

MOCK = {"test.mock.num.brokers": 1, "log_level": 0, "linger.ms": 0}


def files(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*.parquet"), key=lambda one: one.name)


def rows(directory: Path) -> list[dict[str, Any]]:
    return [row for one in files(directory) for row in pq.ParquetFile(one).read().to_pylist()]


def told(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(pq.read_schema(one).metadata[METADATA]) for one in files(directory)]


@pytest.mark.parametrize("name", ["_orders", ".orders", "_", "orders--eu"])
def test_whatever_a_producer_is_called_readers_see_its_files(name: str, tmp_path: Path) -> None:
    producer = made(tmp_path, name=name)
    producer.produce("t", "1")
    producer.flush()
    producer.close()
    (file,) = files(tmp_path)
    assert file.name[0] not in "._"
    assert unquote(file.name.split("--")[0]) == name == told(tmp_path)[0]["producer"]


def made(directory: Path, config: dict[str, Any] | None = None, **options: Any) -> Producer:
    return Producer(MOCK | (config or {}), receipts={"directory": directory, "topic_ids": False, **options})


def recorder(producer: Producer) -> Recorder:
    assert producer._recorder is not None
    return producer._recorder


def by_hand(directory: Path, config: dict[str, Any] | None = None, **options: Any) -> Producer:
    """Return a producer whose recorder has no threads: what they do is done by the test."""
    with patch.object(Recorder, "start"):
        producer = made(directory, config, **options)
    producer._open(1_000_000)
    return producer


def closed(producer: Producer) -> None:
    """Close a producer whose recorder is driven by hand."""
    producer.flush()
    recorder(producer)._whole = True
    recorder(producer)._last()


def publish(producer: Producer) -> bool:
    """Let a recorder that is driven by hand write a file; return whether it could."""
    producer.flush()
    recorder(producer)._tick()
    return recorder(producer)._guarded(recorder(producer)._publish)


def test_each_acknowledged_record_has_a_receipt_and_the_application_its_callback(tmp_path: Path) -> None:
    heard: list[Any] = []
    producer = made(tmp_path, {"on_delivery": lambda error, message: heard.append(("default", error, message.value()))})
    producer.produce("t", b"a", b"k")
    producer.produce(
        "t",
        "é",
        headers={"h": "x", "none": None},
        on_delivery=lambda _, message: heard.append(("own", message.value())),
    )
    producer.produce("t", None, None, 0, lambda *_: heard.append("positional"))
    producer.flush()
    producer.close()
    assert set(heard) == {("default", None, b"a"), ("own", "é".encode()), "positional"}
    found = {row["digest"]: row for row in rows(tmp_path)}
    assert set(found) == {
        digest(b"k", b"a"),
        digest(None, "é".encode(), [("h", b"x"), ("none", None)]),
        digest(None, None),
    }
    assert {(row["topic"], row["transactional"], row["outcome"]) for row in found.values()} == {
        ("t", False, "promised")
    }
    assert pq.read_schema(files(tmp_path)[0]).remove_metadata().equals(SCHEMA)
    (about,) = told(tmp_path)
    assert (about["receipts"], about["closed"], about["dropped"], about["failed"]) == (3, True, 0, 0)


def test_a_fast_producer_gets_receipts_for_so_many_and_runs_the_clients_own_code_for_the_rest(tmp_path: Path) -> None:
    producer = by_hand(tmp_path, per_second=50)
    producer._open(5)
    for number in range(20):
        producer.produce("t", str(number))
    assert producer.produce == producer._bare
    producer._open(2)
    assert producer.produce != producer._bare
    for number in range(100, 120):
        producer.produce("t", str(number))
    producer.flush()
    closed(producer)
    first = [digest(None, str(number).encode()) for number in (*range(5), 100, 101)]
    assert sorted(row["digest"] for row in rows(tmp_path)) == sorted(first)


def test_a_batch_has_receipts_once_also_if_it_is_sent_again(tmp_path: Path) -> None:
    heard: list[str] = []
    producer = made(tmp_path)
    batch: list[dict[str, Any]] = [{"value": b"a"}, {"value": b"b", "callback": lambda *_: heard.append("own")}]
    for _ in range(2):
        assert producer.produce_batch("t", batch, on_delivery=lambda *_: heard.append("given")) == 2
        producer.flush()
    producer.close()
    assert sorted(heard) == ["given", "given", "own", "own"]
    assert sorted(row["digest"] for row in rows(tmp_path)) == sorted([digest(None, b"a"), digest(None, b"b")] * 2)


def test_a_refused_record_is_no_promise(tmp_path: Path) -> None:
    producer = made(tmp_path, {"message.timeout.ms": 50, "test.mock.broker.rtt": 5000})
    producer.produce("t", b"late")
    producer.flush()
    producer.close_receipts()
    assert rows(tmp_path) == []
    assert told(tmp_path)[-1]["failed"] == 1


@pytest.mark.parametrize(
    ("end", "outcomes", "aborted"),
    [("commit", ["promised"] * 2, 0), ("abort", [], 2), ("doubt", ["in-doubt"] * 2, 0), ("open", ["in-doubt"] * 2, 0)],
)
def test_a_transactions_receipts_are_promises_only_once_it_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, outcomes: list[str], aborted: int
) -> None:
    producer = made(tmp_path, {"transactional.id": "x", "test.mock.num.brokers": 3})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in (b"a", b"b"):
        producer.produce("t", value)
    producer.flush()
    recorder(producer)._tick()
    assert not len(recorder(producer)._rows), "before its end a transaction promises nothing"
    if end == "commit":
        producer.commit_transaction(30)
    elif end == "abort":
        producer.abort_transaction(30)
    elif end == "doubt":

        def lost(*_: Any) -> None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

        monkeypatch.setattr(producer, "_commit", lost)
        with pytest.raises(KafkaException):
            producer.commit_transaction(30)
    producer.close_receipts()
    assert [row["outcome"] for row in rows(tmp_path)] == outcomes
    assert all(row["transactional"] for row in rows(tmp_path))
    assert told(tmp_path)[-1]["aborted"] == aborted


def test_a_disk_that_is_full_breaks_nothing_and_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    full = True
    put = Files._put

    def refuse(*arguments: Any) -> None:
        if full:
            raise OSError(28, "No space left on device")
        put(*arguments)

    monkeypatch.setattr(Files, "_put", refuse)
    producer = by_hand(tmp_path, rows=2)
    with caplog.at_level(logging.WARNING, "canary_receipts"):
        for count in (3, 20, 3):  # held; more than memory is for; nothing more
            for number in range(count):
                producer.produce("t", str(number), partition=0)  # they are delivered in their order
            assert not publish(producer)
    full = False
    closed(producer)
    assert len(caplog.records) == 1
    assert "No space left on device" in caplog.text
    assert [row["digest"] for row in rows(tmp_path)].count(digest(None, b"0")) == 2  # the first of each that fit
    assert len(rows(tmp_path)) == 8
    (about,) = told(tmp_path)
    assert (about["sequence"], about["receipts"], about["dropped"]) == (0, 8, 18)
    assert not list(tmp_path.rglob(".*"))


def test_without_a_directory_it_is_the_clients_own_producer() -> None:
    producer = Producer(MOCK)
    assert producer.produce == producer._bare
    producer.produce("t", b"a")
    assert producer.flush() == 0
    producer.close()


def test_options_come_from_the_environment_and_wrong_ones_are_named() -> None:
    environment = {"CANARY_RECEIPTS_DIRECTORY": "/d", "CANARY_RECEIPTS_PER_SECOND": "all"}
    assert Options.of({"every_s": 5}, environment) == Options(directory="/d", per_second=None, every_s=5.0)
    for given, named in (
        ({"directory": "/d", "often": 1}, "often"),
        ({"per_second": -1}, "per_second"),
        ({"every_s": "soon"}, "every_s"),
    ):
        with pytest.raises(ValueError, match=named):
            Options.of(given, {})
    with pytest.raises(ValueError, match="CANARY_RECEIPTS_ROWS"):
        Options.of(None, {"CANARY_RECEIPTS_ROWS": "many"})


KILLED = """
import sys
from canary_receipts import Producer
producer = Producer({"test.mock.num.brokers": 1, "log_level": 0, "linger.ms": 0},
                    receipts={"directory": sys.argv[1], "every_s": 0.1, "per_second": "all", "topic_ids": False})
def heard(error, message):
    print(message.partition(), message.offset(), message.value().decode(), flush=True)
number = 0
while True:
    producer.produce("t", str(number), on_delivery=heard)
    number += 1
    producer.poll(0.001)
"""


def test_what_a_killed_process_leaves_is_readable_and_nothing_in_it_is_invented(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2], text=True) as process:
        assert process.stdout
        lines: list[str] = []
        while len(files(tmp_path)) < 4 and len(lines) < 100_000:
            lines.append(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        lines += process.stdout.readlines()
    heard = {tuple(line.split()) for line in lines if line.endswith("\n")}
    acknowledged = {(int(partition), int(offset)): value for partition, offset, value in heard}
    found = rows(tmp_path)
    assert found
    for row in found:
        place = row["partition"], row["offset"]
        if place in acknowledged:  # the last one may have been noted, and not printed
            assert row["digest"] == digest(None, acknowledged[place].encode())
    assert len({(row["partition"], row["offset"]) for row in found} - acknowledged.keys()) <= 1
    about = told(tmp_path)
    assert [one["sequence"] for one in about] == list(range(len(about)))
    assert not any(one["closed"] for one in about)
    assert about[-1]["receipts"] == len(found)


def test_a_file_holds_no_key_and_no_value(tmp_path: Path) -> None:
    producer = made(tmp_path)
    producer.produce("t", b"SECRET-VALUE", b"SECRET-KEY", headers=[("h", b"SECRET-HEADER")])
    producer.flush()
    producer.close()
    content = b"".join(one.read_bytes() for one in files(tmp_path))
    table = pa.concat_tables(pq.ParquetFile(one).read() for one in files(tmp_path))
    assert b"SECRET" not in content
    assert "SECRET" not in str(table.to_pylist())


def test_the_producer_is_still_a_producer_of_confluent_kafka() -> None:
    assert issubclass(Producer, confluent_kafka.Producer)
