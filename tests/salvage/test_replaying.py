"""Replay into librdkafka's own broker in memory: whole, in order, gone on with, and refused where others write."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer
from hypothesis import given
from hypothesis import strategies as st

from canary.errors import UserError
from canary.salvage import replaying
from canary.salvage.replaying import GAPLESS, Part, Replayed, objections, part_of, replay
from canary.salvage.salvaged import Salvaged, made, manifest_of, rows, write_manifest, writing
from tests.support.waiting import in_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_topics = itertools.count()


@pytest.fixture(scope="module", name="mock")
def _mock() -> Iterator[dict[str, Any]]:
    """Properties of clients of a broker in memory, which lives as long as the producer that made it."""
    keeper = Producer({"bootstrap.servers": "", "test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = keeper.list_topics(timeout=10).brokers.values()
    yield {"bootstrap.servers": f"{broker.host}:{broker.port}", "log_level": 0}
    del keeper


@pytest.fixture(name="clients")
def _clients(mock: dict[str, Any]) -> Iterator[tuple[Producer, Consumer]]:
    consumer = Consumer(mock | {"group.id": "x", "enable.partition.eof": True, "auto.offset.reset": "error"})
    yield Producer(mock | GAPLESS | {"linger.ms": 5}), consumer
    consumer.close()


def topic(clients: tuple[Producer, Consumer]) -> str:
    name = f"again-{next(_topics)}"
    assert clients[0].list_topics(name, timeout=10).topics[name].error is None  # a producer's question makes it
    return name


def row(offset: int, **changes: Any) -> Salvaged:
    plain = Salvaged(
        "t", 1, offset, 1_700_000_000_000 + offset, "create", 2, b"k%d" % offset, b"v%d" % offset,
        ((b"h", b"x"), (b"n", None)), -1, -1, transactional=False, outcome="committed", collision=None,
    )  # fmt: skip
    return plain._replace(**changes)


def part(folder: Path, *written: Salvaged) -> Part:
    file = folder / "t-1.parquet"
    file.unlink(missing_ok=True)
    with writing(file) as writer:
        for one in written:
            writer.write(one)
    return part_of(1, file)


ROWS = [row(10), row(11, value=None), row(15, key=None, headers=()), row(16, key=b"", value=b""), row(20)]


def nothing(*_: object) -> None:
    """Show no step."""


def test_records_are_written_as_they_were_and_a_second_run_adds_nothing(
    clients: tuple[Producer, Consumer], tmp_path: Path
) -> None:
    target, parts = topic(clients), [Part(0), part(tmp_path, *ROWS)]
    assert replay(parts, target, *clients, nothing) == [Replayed(0, 0, 0), Replayed(1, 0, 5)]
    assert replay(parts, target, *clients, nothing) == [Replayed(0, 0, 0), Replayed(1, 5, 0)]


def test_a_record_is_written_however_large_the_topic_lets_it_be(
    clients: tuple[Producer, Consumer], tmp_path: Path
) -> None:
    target, large = topic(clients), row(1, value=b"x" * 3_000_000)
    assert replay([part(tmp_path, large, row(2))], target, *clients, nothing) == [Replayed(1, 0, 2)]


def test_a_run_that_was_stopped_is_gone_on_with(clients: tuple[Producer, Consumer], tmp_path: Path) -> None:
    target = topic(clients)
    steps = iter(range(3))

    def stopped(*_: object) -> None:
        if next(steps, None) is None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay([part(tmp_path, *(row(n) for n in range(1000)))], target, *clients, stopped)
    (done,) = replay([part(tmp_path, *(row(n) for n in range(1000)))], target, *clients, nothing)
    assert done.before + done.written == 1000


def test_records_of_others_are_found_before_and_behind(clients: tuple[Producer, Consumer], tmp_path: Path) -> None:
    producer, consumer = clients
    target, mine = topic(clients), part(tmp_path, *ROWS)
    producer.produce(target, b"other", partition=1)
    in_time(producer.flush(10) == 0, "all acknowledgements")
    with pytest.raises(UserError, match="has another record at offset 0 than was salvaged from offset 10"):
        replay([mine], target, producer, consumer, nothing)
    with pytest.raises(UserError, match=":1 holds 1 records, and 0 are to be replayed: others write there"):
        replay([Part(1)], target, producer, consumer, nothing)


def test_a_change_of_any_field_is_found(clients: tuple[Producer, Consumer], tmp_path: Path) -> None:
    target = topic(clients)
    replay([part(tmp_path, *ROWS)], target, *clients, nothing)
    changes: list[dict[str, Any]] = [
        {"timestamp_ms": 5},
        {"key": b""},
        {"value": b""},
        {"headers": ()},
        {"headers": ((b"h", b"x"), (b"n", b""))},
    ]
    for change in changes:
        with pytest.raises(UserError, match="another record at offset 1") as raised:
            replay([part(tmp_path, ROWS[0], row(11, **{"value": None} | change), *ROWS[2:])], target, *clients, nothing)
        assert raised.value.exit_status == 1


def test_a_record_that_is_refused_ends_it_and_nothing_passes_it(
    mock: dict[str, Any], clients: tuple[Producer, Consumer], tmp_path: Path
) -> None:
    small = Producer(mock | GAPLESS | {"message.max.bytes": 1000})
    target, mine = topic(clients), part(tmp_path, ROWS[0], row(11, value=b"x" * 2000), row(12))
    with pytest.raises(UserError, match=r":1: .* of 3 records are written, then: MSG_SIZE_TOO_LARGE") as raised:
        replay([mine], target, small, clients[1], nothing)
    assert raised.value.exit_status == 3
    assert replay([mine], target, *clients, nothing)[0].written >= 2


def test_records_without_a_timestamp_get_the_present_time_and_are_counted(
    clients: tuple[Producer, Consumer], tmp_path: Path
) -> None:
    mine = part(tmp_path, row(10, timestamp_ms=-1), row(11, timestamp_ms=0), row(12, timestamp_ms=1))
    assert (mine.untimed, mine.oldest_ms) == (2, 1)
    assert replay([mine], topic(clients), *clients, nothing) == [Replayed(1, 0, 3)]


def test_a_header_that_this_client_cannot_write_is_said_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the record of offset 11 has a header whose key is no UTF-8"):
        part(tmp_path, row(10), row(11, headers=((b"\xff", b""),)))


def test_settings_of_the_target_that_would_change_or_remove_records_are_named() -> None:
    day = 86_400_000
    safe = {"message.timestamp.type": "CreateTime", "cleanup.policy": "delete", "retention.ms": str(7 * day)}
    assert list(objections(safe, 0, 6 * day)) == []
    assert list(objections(safe | {"retention.ms": "-1", "retention.bytes": "-1"}, 0, 10**15)) == []
    for wrong in (
        {"retention.ms": str(5 * day)},
        {"cleanup.policy": "compact,delete"},
        {"message.timestamp.type": "LogAppendTime"},
        {"retention.bytes": "1"},
    ):
        (said,) = objections(safe | wrong, 0, 6 * day)
        assert said.startswith(next(iter(wrong)))


nullable = st.none() | st.binary(max_size=20)


@given(
    written=st.lists(
        st.builds(
            row,
            st.integers(0, 2**62),
            timestamp_ms=st.integers(-1, 2**50),
            key=nullable,
            value=nullable,
            headers=st.lists(st.tuples(st.binary(max_size=4), nullable), max_size=3).map(tuple),
            collision=st.none() | st.booleans(),
        ),
        max_size=30,
    )
)
def test_what_was_written_to_a_file_is_read_from_it(
    written: list[Salvaged], tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("out") / "t-1.parquet"
    with writing(file) as writer:
        for number, one in enumerate(written):
            writer.write(one)
            if number % 7 == 0:
                writer.flush()
    assert list(rows(file)) == written
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_file_is_there_once_it_is_whole_and_a_directory_is_whole_with_its_manifest(tmp_path: Path) -> None:
    out = made(tmp_path / "out")
    assert out.stat().st_mode & 0o777 == 0o700
    with pytest.raises(AttributeError), writing(out / "t-1.parquet") as writer:
        writer.write(None)  # type: ignore[arg-type]  # anything that fails
    assert list(out.iterdir()) == []
    with pytest.raises(UserError, match=r"holds no manifest.json of canary salvage"):
        manifest_of(out)
    write_manifest(out, {"format": 2})
    with pytest.raises(UserError, match="format 2 is not known here"):
        manifest_of(out)
    with pytest.raises(UserError, match="is not empty"):
        made(out)


def test_the_producer_leaves_no_gaps() -> None:
    assert replaying.GAPLESS["enable.gapless.guarantee"]
    assert replaying.GAPLESS["enable.idempotence"]
