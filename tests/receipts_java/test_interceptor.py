"""The interceptor in Java producers, on real brokers: its receipts are compared with the topic, read directly."""

from __future__ import annotations

import base64
import datetime as dt
import json
import os
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from canary.facts.digests import digest
from canary.lab.jars import cache
from tests.support import java_receipts
from tests.support.kafka_tools import install
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canary.lab import Lab

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TRIAL: Final = Path(__file__).with_name("Trial.java")
PATIENCE_S: Final = 300.0
OLDEST: Final = (
    "org/apache/kafka/kafka-clients/2.8.0/kafka-clients-2.8.0.jar",
    "org/slf4j/slf4j-api/1.7.36/slf4j-api-1.7.36.jar",
)
"""What the jar is compiled against."""
BYTES: Final = "org.apache.kafka.common.serialization.ByteArraySerializer"


@pytest.fixture(scope="module", name="jar")
def _jar() -> Path:
    return java_receipts.jar()


class Receipts:
    """What is in a directory of receipts: rows by their place, and the metadata of the latest file."""

    def __init__(self, directory: Path) -> None:
        self.files = sorted(directory.glob("*/*.parquet"), key=lambda file: file.name)
        tables = [pq.read_table(file) for file in self.files]
        rows = [row for table in tables for row in table.to_pylist()]
        self.rows = {(row["partition"], row["offset"]): row for row in rows}
        assert len(self.rows) == len(rows), "a record has two receipts"
        self.told: list[dict[str, Any]] = [json.loads(table.schema.metadata[b"canary.receipts"]) for table in tables]
        self.last = self.told[-1] if self.told else {}
        assert self.last.get("receipts", 0) == len(rows)

    def content(self) -> dict[tuple[int, int], tuple[int | None, int | None]]:
        """Return timestamp (ms) and digest of each record, by its place."""
        return {place: (_ms(row["timestamp"]), row["digest"]) for place, row in self.rows.items()}


def truth(lab: Lab, topic: str, *, committed: bool = False) -> dict[tuple[int, int], tuple[int, int]]:
    """Return timestamp (ms) and digest of each record of a topic, by its place, as a plain consumer reads them."""
    level = "read_committed" if committed else "read_uncommitted"
    reader = Consumer(
        {"bootstrap.servers": lab.bootstrap, "group.id": "x", "isolation.level": level, "enable.partition.eof": True}
    )
    found = {}
    places = [TopicPartition(topic, number, 0) for number in reader.list_topics(topic, 30).topics[topic].partitions]
    reader.assign(places)
    ended = 0
    while ended < len(places):
        message = reader.poll(30)
        assert message is not None
        if message.error():
            ended += 1
            continue
        record = digest(message.key(), message.value(), message.headers())
        found[message.partition(), message.offset()] = (message.timestamp()[1], record)
    reader.close()
    return found


def made(lab: Lab, topic: str, partitions: int = 1) -> str:
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 3)])[topic].result(60)
    return topic


def properties(folder: Path, lab: Lab, more: dict[str, object] | None = None) -> Path:
    """Return a file of properties of a producer of bytes."""
    return java_receipts.properties(folder, lab, {"key.serializer": BYTES, "value.serializer": BYTES} | (more or {}))


def start(jar: Path, config: Path, topic: str, manner: str, *, lib: str | None = None) -> subprocess.Popen[str]:
    """Start Trial.java with the jars of the lab's Kafka, or others."""
    command = [
        cache.java(),
        "-XX:TieredStopAtLevel=1",
        "-Dorg.apache.logging.log4j.level=WARN",
        "-cp",
        f"{jar}:{lib or f'{cache.fetch()}/*'}",
    ]
    return subprocess.Popen(
        [*command, str(TRIAL), str(config), topic, manner],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(jar: Path, config: Path, topic: str, lines: Sequence[str], manner: str = "plain", **more: Any) -> str:
    """Let Trial.java send lines, and return what it has said."""
    process = start(jar, config, topic, manner, **more)
    said = "".join(process.communicate("\n".join(lines) + "\n", timeout=PATIENCE_S))
    assert process.returncode == 0, said
    return said


def line(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()) -> str:
    fields = [_text(key), _text(value)]
    for name, content in headers:
        fields += [name, _text(content)]
    return "\t".join(fields)


def _text(content: bytes | None) -> str:
    return "-" if content is None else base64.b64encode(content).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _ms(time: dt.datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1000)


def test_console_producer_writes_the_receipts_of_what_is_in_the_topic(jar: Path, lab: Lab, tmp_path: Path) -> None:
    topic = made(lab, "orders", partitions=3)
    config = properties(
        tmp_path, lab, {"key.serializer": None, "value.serializer": None, "canary.receipts.name": "orders/eu"}
    )
    lines = [f"h:{number}\tkey {number % 7}\tvalue {'x' * (number % 50)}" for number in range(999)]
    lines += ["NULL\tkey\tNULL", "größe:12 µm,b:\tNULL\tWert"]
    settings = {"parse.key": "true", "parse.headers": "true", "null.marker": "NULL"}
    options = [word for name, value in settings.items() for word in ("--property", f"{name}={value}")]
    environment = {"CLASSPATH": str(jar), "LC_ALL": "C.UTF-8"}
    subprocess.run(
        [
            str(install(tmp_path / "bin") / "kafka-console-producer.sh"),
            "--bootstrap-server",
            lab.bootstrap,
            "--topic",
            topic,
            "--producer.config",
            str(config),
            *options,
        ],
        input="\n".join(lines) + "\n",
        text=True,
        check=True,
        timeout=PATIENCE_S,
        env=os.environ | environment,
    )
    receipts = Receipts(tmp_path / "receipts")
    assert len(receipts.rows) == len(lines)
    assert receipts.content() == truth(lab, topic)
    assert {(row["topic"], row["transactional"], row["outcome"]) for row in receipts.rows.values()} == {
        (topic, False, "promised")
    }
    last = receipts.last
    assert last["client"] == f"canary-receipts (Java) {version('kafka-durability-canary')}"
    assert receipts.files[-1].name == f"orders%2Feu--{last['incarnation']}--{last['sequence']:010d}.parquet"
    assert last["closed"]
    assert last["producer"] == "orders/eu"
    assert [last[name] for name in ("dropped", "failed", "aborted", "without_offset")] == [0, 0, 0, 0]
    assert not list((tmp_path / "receipts").glob("*/.*"))


def test_digests_are_those_that_other_languages_compute(jar: Path, lab: Lab, tmp_path: Path) -> None:
    """Also of an object that is sent twice while it is under way."""
    known = json.loads((java_receipts.ROOT / "tests" / "facts" / "digests.json").read_text())["records"]
    lines = [
        line(_bytes(one["key"]), _bytes(one["value"]), [(name, _bytes(value)) for name, value in one["headers"]])
        for one in known
    ]
    run(jar, properties(tmp_path, lab), made(lab, "vectors"), [*lines, "again", "again"])
    receipts = Receipts(tmp_path / "receipts")
    digests = [row["digest"] for _, row in sorted(receipts.rows.items())]
    assert digests == [one["digest"] for one in known] + 2 * [known[-1]["digest"]]


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_record_of_a_transaction_is_in_doubt(jar: Path, lab: Lab, tmp_path: Path, end: str) -> None:
    """An interceptor is not told how a transaction ends, and must not promise what is aborted."""
    topic = made(lab, "payments")
    run(jar, properties(tmp_path, lab, {"transactional.id": "payments"}), topic, 50 * [line(None, b"1 EUR")], end)
    receipts = Receipts(tmp_path / "receipts")
    assert receipts.content() == truth(lab, topic)
    assert len(receipts.rows) == 50
    assert {(row["transactional"], row["outcome"]) for row in receipts.rows.values()} == {(True, "in-doubt")}
    assert len(truth(lab, topic, committed=True)) == (50 if end == "commit" else 0)


def test_the_oldest_client_writes_receipts_without_digests(jar: Path, lab: Lab, tmp_path: Path) -> None:
    repository = Path.home() / ".m2" / "repository"
    lib = ":".join(str(repository / one) for one in OLDEST)
    topic = made(lab, "old")
    run(jar, properties(tmp_path, lab), topic, 50 * [line(b"k", b"v")], lib=lib)
    times = {place: (time, None) for place, (time, _) in truth(lab, topic).items()}
    assert Receipts(tmp_path / "receipts").content() == times
    assert len(times) == 50


def test_a_killed_producer_has_lost_only_the_receipts_since_its_last_file(jar: Path, lab: Lab, tmp_path: Path) -> None:
    topic = made(lab, "killed")
    process = start(jar, properties(tmp_path, lab, {"canary.receipts.every_s": 0.5}), topic, "forever")
    folder = tmp_path / "receipts"
    try:
        until(lambda: len(list(folder.glob("*/*.parquet"))) >= 2, 60, "two files of receipts")
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_S)
    receipts = Receipts(folder)
    written = truth(lab, topic)
    assert receipts.rows
    assert {place: written[place] for place in receipts.rows} == receipts.content()
    assert sorted(receipts.rows) == [(0, offset) for offset in range(len(receipts.rows))]
    assert not any(told["closed"] for told in receipts.told)


def test_a_producer_goes_on_where_receipts_cannot_be_written(jar: Path, lab: Lab, tmp_path: Path) -> None:
    topic = made(lab, "unwritable")
    config = properties(tmp_path, lab)
    (tmp_path / "receipts").write_text("no directory")
    said = run(jar, config, topic, 50 * [line(b"k", b"v")])
    assert len(truth(lab, topic)) == 50
    assert said.count("50 receipts were lost") == 1
    assert said.count("Receipts cannot be written") == 1


def test_a_limit_lets_some_records_have_receipts_that_are_whole(jar: Path, lab: Lab, tmp_path: Path) -> None:
    topic = made(lab, "limited")
    config = properties(tmp_path, lab, {"canary.receipts.per_second": 10})
    run(jar, config, topic, [line(b"k", str(number).encode()) for number in range(5000)])
    receipts, written = Receipts(tmp_path / "receipts"), truth(lab, topic)
    assert 1 <= len(receipts.rows) < len(written) == 5000
    assert {place: written[place] for place in receipts.rows} == receipts.content()
    assert (receipts.last["per_second"], receipts.last["dropped"]) == (10, 0)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("canary.receipts.every.s", 1, "canary.receipts.every.s is unknown"),
        ("canary.receipts.directory", "s3://receipts", "a directory is needed"),
    ],
)
def test_a_property_that_is_wrong_is_refused_before_anything_is_sent(
    jar: Path, lab: Lab, tmp_path: Path, name: str, value: object, words: str
) -> None:
    topic = made(lab, name)
    process = start(jar, properties(tmp_path, lab, {name: value}), topic, "plain")
    said = "".join(process.communicate(line(b"k", b"v") + "\n", timeout=PATIENCE_S))
    assert process.returncode == 1
    assert words in said
    assert truth(lab, topic) == {}
