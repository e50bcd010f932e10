"""The log of what happened to a lab, and which expulsions nothing done to a broker explains."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from canary.lab import CONTROLLER
from canary.lab.events import Event, events, note
from tests.support.expulsions import RETURNING_S, unasked
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from canary.lab import Lab

SAID = """\
2026-11-22 07:58:14,689 INFO [QuorumController id=1000] CreateTopics result(s): CreatableTopic(name='t') (org.R)
2026-11-22 07:58:16,965 INFO [Partition t-1-0 broker=3] ISR updated to 3,1  and version updated to 1 (kafka.cluster.P)
2026-11-22 07:58:17,849 INFO [QuorumController id=1000] Fencing broker 2 at epoch 14 because its session has timed out.
2026-11-22 07:58:17,850 INFO [QuorumController id=1000] Replayed BrokerRegistrationChangeRecord modifying the \
registration for broker 2: BrokerRegistrationChangeRecord(brokerId=2, brokerEpoch=14, fenced=1, logDirs=[])
2026-11-22 07:58:20,878 INFO [QuorumController id=1000] Replayed BrokerRegistrationChangeRecord modifying the \
registration for broker 2: BrokerRegistrationChangeRecord(brokerId=2, brokerEpoch=14, fenced=-1, logDirs=[])
2026-11-22 07:58:21,001 INFO [QuorumController id=1000] UNCLEAN partition change for t-1-0 with topic ID C2d: leader: 3
\tat org.apache.kafka.Something
"""


def test_what_brokers_say_and_what_was_done_is_one_story_in_the_order_of_time(tmp_path: Path) -> None:
    (tmp_path / "controller").mkdir()
    (tmp_path / "controller" / "events.log").write_text(SAID)
    began = time.time()
    note(tmp_path, "paused", (2,))
    note(tmp_path, "killed", (1, 3))
    found = events(tmp_path)
    assert [(one.what, one.node) for one in found] == [
        ("isr", 3),
        ("fenced", 2),
        ("unfenced", 2),
        ("unclean", 1000),
        ("paused", 2),
        ("killed", 1),
        ("killed", 3),
    ]
    assert (found[0].topic, found[0].partition, found[0].isr) == ("t-1", 0, frozenset({1, 3}))
    assert (found[3].topic, found[3].partition) == ("t-1", 0)
    assert found[2].at - found[1].at == pytest.approx(3.029, abs=0.002)
    assert [one.what for one in events(tmp_path, began - 0.01)] == ["paused", "killed", "killed"]
    assert str(found[0]).endswith("node 3: isr t-1-0 [1, 3]")


def isr(at: float, *brokers: int) -> Event:
    return Event(at, "isr", 1, "t", 0, frozenset(brokers))


FENCED = Event(100.0, "fenced", 2)
UNASKED: list[tuple[str, list[Event], list[Event]]] = [
    ("nothing was done to it", [FENCED], [FENCED]),
    ("it was paused", [Event(90.0, "paused", 2), FENCED], []),
    ("it was killed, and is starting", [Event(90.0, "killed", 2), Event(91.0, "started", 2), FENCED], []),
    ("another one was paused", [Event(90.0, "paused", 1), FENCED], [FENCED]),
    ("the controller was frozen", [Event(90.0, "paused", CONTROLLER), Event(99.0, "resumed", CONTROLLER), FENCED], []),
    (
        "it was resumed long ago, before it was fenced",
        [Event(1.0, "paused", 2), Event(2.0, "resumed", 2), FENCED],
        [FENCED],
    ),
    (
        "it came back long ago",
        [Event(1.0, "paused", 2), Event(5.0, "fenced", 2), Event(6.0, "resumed", 2), Event(7.0, "unfenced", 2), FENCED],
        [FENCED],
    ),
    ("it leaves the ISR", [isr(1.0, 1, 2, 3), isr(9.0, 1, 3)], [isr(9.0, 1, 3)]),
    ("it leaves the ISR, paused", [isr(1.0, 1, 2, 3), Event(2.0, "paused", 2), isr(9.0, 1, 3)], []),
    ("an ISR that grows", [isr(1.0, 1), isr(9.0, 1, 3)], []),
]


def test_only_an_expulsion_that_nothing_done_explains_is_evidence_of_a_stall() -> None:
    for what, happened, expected in UNASKED:
        assert unasked(happened) == expected, what
    assert RETURNING_S > 15, "a session of the calm profile"


@pytest.mark.kafka
@pytest.mark.quick
def test_a_broker_that_is_starved_is_told_from_one_that_is_paused(lab: Lab) -> None:
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    new = NewTopic("starved", num_partitions=1, replica_assignment=[[1, 2, 3]])
    admin.create_topics([new])["starved"].result(60)
    lab.wait_isr("starved", 0, {1, 2, 3})
    began = time.time()
    lab.pause(2)
    lab.wait_isr("starved", 0, {1, 3})
    lab.resume(2)
    lab.wait_isr("starved", 0, {1, 2, 3})
    assert {2} == {event.node for event in lab.events(began) if event.what in {"paused", "resumed"}}
    assert 3 not in {event.node for event in unasked(lab.events(began)) if event.what == "fenced"}
    pid = next(node.pid for node in lab.status() if node.node == 3)
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)  # behind the lab's back, as a machine does that gives it no time
    try:
        until(lambda: 3 in {one.node for one in unasked(lab.events(began)) if one.what == "fenced"}, 30, "it is told")
    finally:
        os.kill(pid, signal.SIGCONT)
    lost = [event.isr for event in unasked(lab.events(began)) if event.topic == "starved"]
    assert lost in ([], [frozenset({1, 2})]), "its leader may have been quicker than the controller"
