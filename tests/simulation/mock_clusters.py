"""Two clusters that answer errors on demand: librdkafka's mock cluster for real clients, a simulated one for ours.

librdkafka's functions for its mock cluster are no part of confluent-kafka, but of the library that is in its wheel.
"""

import ctypes
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka

from simulation.kafka.contract import Batch, Fetched, Listing, Produced

KEYS = {"produce": 0, "fetch": 1, "list": 2, "init": 22, "add": 24, "end": 26}
"""Kafka's numbers of the requests that may be answered with errors."""


class MockCluster:
    """librdkafka's mock cluster with three brokers; ``bootstrap`` is where clients find it."""

    def __init__(self) -> None:
        (path,) = (Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs").glob("librdkafka*")
        self._library = library = ctypes.CDLL(str(path))
        for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
            getattr(library, name).restype = ctypes.c_void_p
        library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
        said = ctypes.create_string_buffer(512)
        conf = ctypes.c_void_p(library.rd_kafka_conf_new())
        self._handle = ctypes.c_void_p(library.rd_kafka_new(0, conf, said, ctypes.c_size_t(512)))
        self._cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(self._handle, 3))
        library.rd_kafka_mock_group_initial_rebalance_delay_ms(self._cluster, ctypes.c_int32(0))
        self.bootstrap = library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def create_topic(self, name: str, partitions: int) -> None:
        self._library.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, 3)

    def recreate_topic(self, name: str) -> None:
        self._library.rd_kafka_mock_topic_delete(self._cluster, name.encode())
        self.create_topic(name, 4)

    def lead(self, topic: str, partition: int, broker: int) -> None:
        """Let another broker lead, under the next epoch."""
        place = (ctypes.c_int32(partition), ctypes.c_int32(broker))
        self._library.rd_kafka_mock_partition_set_leader(self._cluster, topic.encode(), *place)

    def fail(self, request: str, errors: Sequence[int]) -> None:
        """Answer the next requests of a kind with these errors and do nothing; 0: as usual."""
        array = (ctypes.c_int * len(errors))(*errors)
        self._library.rd_kafka_mock_push_request_errors_array(
            self._cluster, ctypes.c_int16(KEYS[request]), ctypes.c_size_t(len(errors)), array
        )

    def slow(self, request: str, seconds: float) -> None:
        """Answer the next request of a kind so late, whichever broker it goes to."""
        for broker in (1, 2, 3):
            self._library.rd_kafka_mock_broker_push_request_error_rtts(
                self._cluster,
                ctypes.c_int32(broker),
                ctypes.c_int16(KEYS[request]),
                ctypes.c_size_t(1),
                ctypes.c_int(0),
                ctypes.c_int(round(seconds * 1000)),
            )

    def close(self) -> None:
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._handle)


class Scripted:
    """A simulated cluster, but for the requests that are to be answered with errors, or late."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._errors: defaultdict[str, deque[int]] = defaultdict(deque)
        self._late: dict[str, float] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def fail(self, request: str, errors: Sequence[int]) -> None:
        self._errors[request].extend(errors)

    def slow(self, request: str, seconds: float) -> None:
        self._late[request] = seconds

    def lead(self, topic: str, partition: int, broker: int) -> None:
        assert self._cluster.elect(topic, partition, broker)

    def close(self) -> None:
        """Do nothing."""

    def _next(self, request: str) -> int:
        errors = self._errors[request]
        return errors.popleft() if errors else 0

    def _later(self, request: str, what: Callable[[], object]) -> None:
        late = self._late.pop(request, 0.0)
        if late:
            self._cluster.schedule.after(late, what)
        else:
            what()

    def produce(
        self, site: str, broker: int, topic: str, partition: int, batch: Batch, *rest: Any
    ) -> None:  # fmt: skip
        *others, reply = rest
        error = self._next("produce")
        if error:
            self._cluster.schedule.after(0.001, lambda: reply(Produced(error)))
        else:
            late: Callable[[Produced], None] = lambda found: self._later("produce", lambda: reply(found))  # noqa: E731
            self._cluster.produce(site, broker, topic, partition, batch, *others, late)

    def fetch(self, *args: Any, **kwargs: Any) -> Fetched:
        error = self._next("fetch")
        found: Fetched = Fetched(error) if error else self._cluster.fetch(*args, **kwargs)
        return found

    def list_offset(self, *args: Any) -> Listing:
        error = self._next("list")
        found: Listing = Listing(error) if error else self._cluster.list_offset(*args)
        return found

    def init_producer_id(self, *args: Any) -> tuple[int, int, int]:
        error = self._next("init")
        found: tuple[int, int, int] = (error, -1, -1) if error else self._cluster.init_producer_id(*args)
        return found

    def add_partitions(self, *args: Any) -> int:
        return self._next("add") or self._cluster.add_partitions(*args)

    def end_transaction(self, *args: Any, commit: bool, reply: Callable[[int], None]) -> None:
        error = self._next("end")
        if error:
            self._cluster.schedule.after(0.001, lambda: reply(error))
        else:
            late: Callable[[int], None] = lambda code: self._later("end", lambda: reply(code))  # noqa: E731
            self._cluster.end_transaction(*args, commit=commit, reply=late)
