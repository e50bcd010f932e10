"""MirrorMaker 2 in its dedicated mode, as one process that copies one topic from one cluster to another."""

from __future__ import annotations

import json
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM
from typing import TYPE_CHECKING, Any, Final, Self

from confluent_kafka import Consumer, Producer, TopicPartition

from canary.lab import process
from canary.lab.jars import cache, classes
from canary.lab.jars.pinned_jars import listed
from tests.support.waiting import in_time

if TYPE_CHECKING:
    from types import TracebackType

_PINNED: Final = Path(__file__).with_name("connect-mirror-4.1.0.txt")
"""What connect-mirror and Connect's runtime need beside the jars of a broker. Users never fetch it."""
_JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xmx192m")
_EVERY_SECOND: Final = (
    "refresh.topics.interval.seconds",
    "refresh.groups.interval.seconds",
    "sync.topic.configs.interval.seconds",
    "emit.checkpoints.interval.seconds",
)
_SOLE: Final = (
    "replication.factor",
    "checkpoints.topic.replication.factor",
    "heartbeats.topic.replication.factor",
    "offset-syncs.topic.replication.factor",
    "offset.storage.replication.factor",
    "status.storage.replication.factor",
    "config.storage.replication.factor",
)
_SETTINGS: Final = {
    **dict.fromkeys(_EVERY_SECOND, 1),
    **dict.fromkeys(_SOLE, 1),
    "emit.heartbeats.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "offset.lag.max": 5,
    "offset.storage.partitions": 1,
    "status.storage.partitions": 1,
}
_WORKER: Final = {
    "offset.flush.interval.ms": 1000,
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 1000,
    "scheduled.rebalance.max.delay.ms": 0,
    "plugin.discovery": "service_load",
}
"""Of Connect's worker: MirrorMaker 2 takes these with the alias of the target before them."""


class MirrorMaker:
    """Copies ``topic`` from the cluster ``source`` (its alias) to ``target``; both are (alias, bootstrap servers)."""

    def __init__(self, folder: Path, topic: str, source: tuple[str, str], target: tuple[str, str]) -> None:
        (alias, origin), (here, bootstrap) = source, target
        self._alias, self._topic, self._bootstrap = alias, topic, bootstrap
        self._log = folder / "mirror-maker.log"
        self._config = folder / "mm2.properties"
        settings = {
            "clusters": f"{alias},{here}",
            f"{alias}.bootstrap.servers": origin,
            f"{here}.bootstrap.servers": bootstrap,
            f"{alias}->{here}.enabled": "true",
            f"{alias}->{here}.topics": topic,
            f"{here}->{alias}.enabled": "false",
            **_SETTINGS,
            **{f"{here}.{key}": value for key, value in _WORKER.items()},
        }
        self._config.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
        self._pid = 0

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill it."""
        self.kill()

    def start(self) -> None:
        lib, java = cache.fetch(), cache.java()
        more = cache._fetch(_PINNED.stem, lambda: listed(_PINNED.read_text()), "MirrorMaker 2", None, None)
        command = [
            java,
            *_JVM,
            *classes.flags(lib, java),
            "-cp",
            f"{lib}/*:{more}/*",
            "org.apache.kafka.connect.mirror.MirrorMaker",
            str(self._config),
        ]
        self._pid = process.spawn(command, cwd=self._log.parent, console=self._log, die_with_parent=True)

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]

    def pause(self) -> None:
        process.send(self._pid, SIGSTOP)

    def resume(self) -> None:
        process.send(self._pid, SIGCONT)

    def stop(self) -> None:
        """End it in an orderly way: it commits its offsets."""
        process.send(self._pid, SIGTERM)
        assert process.wait_for_end(self._pid, 60), self.log()

    def kill(self) -> None:
        process.send(self._pid, SIGKILL)
        assert process.wait_for_end(self._pid, 30)

    def offset(self, partition: int) -> int | None:
        """Return the source's offset of the last record that it has committed as copied; None: none."""
        found: int | None = None
        for key, value in self._offsets():
            if self._is(key, partition) and value:
                found = json.loads(value)["offset"]
        return found

    def move(self, partition: int, offset: int) -> None:
        """Have it go on after this offset of the source; it must not run."""
        key = next(key for key, _ in self._offsets() if self._is(key, partition))
        producer = Producer({"bootstrap.servers": self._bootstrap})
        producer.produce(self._topic_of_offsets, key=key, value=json.dumps({"offset": offset}), partition=0)
        in_time(producer.flush(30) == 0, "all acknowledgements")

    @property
    def _topic_of_offsets(self) -> str:
        return f"mm2-offsets.{self._alias}.internal"

    def _is(self, key: bytes, partition: int) -> bool:
        name, place = json.loads(key)
        return bool(
            name == "MirrorSourceConnector" and (place["topic"], place["partition"]) == (self._topic, partition)
        )

    def _offsets(self) -> list[tuple[bytes, bytes | None]]:
        settings: dict[str, Any] = {"bootstrap.servers": self._bootstrap, "group.id": "offsets-of-mirror-maker"}
        consumer = Consumer({**settings, "enable.auto.commit": False, "enable.partition.eof": True})
        try:
            consumer.assign([TopicPartition(self._topic_of_offsets, 0, 0)])
            found = []
            while (message := consumer.poll(30)) is not None and message.error() is None:
                found.append((message.key(), message.value()))
            return found
        finally:
            consumer.close()
