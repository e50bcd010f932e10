"""How large logs are: which topics are asked for, and what leaders answer."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from canary.facts import LogSized
from canary.threads.ports import SteadyClock
from canary.watching import log_sizes
from canary.watching.log_sizes import LogSizeWatcher
from canary.watching.own_topics import OwnTopics
from canary.wire.errors import WireError
from tests.support.recording import Recording
from tests.support.waiting import in_time
from tests.watching.replicas.world import STATE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from canary.lab import Lab

PLACE = (STATE.topic, STATE.partition)


def configured(**settings: str) -> frozenset[str]:
    own = OwnTopics()
    own.configured("other", {"retention.bytes": SimpleNamespace(value="1")}, 1)
    own.configured("probes", {"retention.bytes": SimpleNamespace(value="1")}, 1)
    own.configured("probes", {k.replace("_", "."): SimpleNamespace(value=v) for k, v in settings.items()}, 1)
    return own.limited - {"other"}


def test_sizes_are_asked_for_where_retention_bytes_may_delete_and_all_of_the_log_is_on_the_leader() -> None:
    assert configured(retention_bytes="1000") == {"probes"}
    assert configured(retention_bytes="0", remote_storage_enable="false") == {"probes"}
    assert configured(retention_bytes="-1") == frozenset()
    assert configured() == frozenset()
    assert configured(retention_bytes="1000", remote_storage_enable="true") == frozenset()


def test_a_leader_that_does_not_answer_leaves_its_logs_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    inbox = Recording()
    leaders: tuple[int | None, ...] = (1, 2, 3, None)
    partitions = tuple(replace(STATE, partition=p, leader=leader) for p, leader in enumerate(leaders))

    def sizes(_admin: Any, places: Iterable[tuple[str, int]], broker: int) -> dict[tuple[str, int], int]:
        if broker == 2:
            raise WireError("CLUSTER_AUTHORIZATION_FAILED: no", refused=True)
        if broker == 3:
            raise WireError("it is gone")
        return dict.fromkeys(places, 100)

    monkeypatch.setattr("canary.wire.topics.described", lambda _, names: dict.fromkeys(names, partitions))
    monkeypatch.setattr("canary.wire.topics.log_sizes", sizes)
    watcher = LogSizeWatcher({}, lambda: [STATE.topic], inbox, SteadyClock())
    watcher.look(object())
    assert [(one.topic, one.partition, one.size_bytes) for one in inbox.of(LogSized)] == [(STATE.topic, 0, 100)]
    assert watcher.failing is not None
    assert "CLUSTER_AUTHORIZATION_FAILED" in watcher.failing


def test_no_connection_is_made_until_a_topic_has_a_retention_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogSizeWatcher, "wait", lambda _self, _seconds: False)

    def opened(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("canary.wire.client.opened", opened)
    watcher = LogSizeWatcher({}, list, Recording(), SteadyClock())
    watcher.stopping.set()
    watcher.run()


@pytest.mark.kafka
@pytest.mark.quick
def test_a_log_is_as_large_as_what_was_written(
    lab: Lab, admin: AdminClient, config: dict[str, Any], topic: str, inbox: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_sizes, "EVERY_S", 0.2)
    admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=3)])[topic].result(30)
    producer = Producer({"bootstrap.servers": lab.bootstrap})
    for _ in range(100):
        producer.produce(topic, b"x" * 1000, partition=1)
    in_time(producer.flush(60) == 0, "all acknowledgements")
    watcher = LogSizeWatcher(config, lambda: [topic], inbox, SteadyClock())
    watcher.start()
    try:
        inbox.wait(lambda: {one.partition for one in inbox.of(LogSized) if one.topic == topic} == {0, 1})
        assert watcher.failing is None
    finally:
        in_time(watcher.stop(20))
    sizes = {one.partition: one.size_bytes for one in inbox.of(LogSized)}
    assert sizes[0] == 0
    assert 100_000 < sizes[1] < 120_000
