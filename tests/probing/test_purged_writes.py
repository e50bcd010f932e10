"""A write that is purged while it waits to be sent again may be in the log: the next one must not be taken for it.

librdkafka 2.16 takes what it purges when a transaction is aborted for unsent, and gives its sequence, under the same
producer epoch, to the next record. A broker that had appended the first acknowledges the next as its copy, at the first
one's offset; its transaction commits, and it is in no log. Met in ten minutes of faults: a leader was killed after it
had replicated a batch and before it answered.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from canary.facts import Acked, Indeterminate
from canary.probe.record import Probe, decode
from canary.probing.base import Renewal
from canary.probing.book import Book
from canary.probing.coordinators import STATE_TOPIC, choose, state_partition
from canary.probing.session import Session
from tests.support.process import records
from tests.support.waiting import in_time
from tests.support.wiring import wired

if TYPE_CHECKING:
    from pathlib import Path

    from canary.lab import Lab
    from tests.support.recording import Recording

pytestmark = [pytest.mark.kafka, pytest.mark.quick]

LEADER, SUCCESSOR, FROZEN = 1, 2, 3


def initialised(session: Session) -> None:
    deadline = time.monotonic() + 60
    while not session.prepare():
        in_time(time.monotonic() < deadline, "what is waited for")


def written(session: Session) -> None:
    session.send([0])
    assert session.deliver(30)


def segment(lab: Lab, broker: int, topic: str) -> Path:
    (path,) = lab.directory.glob(f"broker-{broker}/**/{topic}-0/*.log")
    return path


def test_a_purged_write_that_was_appended_costs_no_write_of_the_next_transaction(
    lab: Lab, config: dict[str, Any], inbox: Recording
) -> None:
    topic = "purged"
    admin = AdminClient(config)
    new = NewTopic(
        topic, num_partitions=1, replica_assignment=[[LEADER, SUCCESSOR, FROZEN]], config={"min.insync.replicas": "2"}
    )
    admin.create_topics([new])[topic].result(20)
    under = Renewal(1, b"tagg", (0,))
    book = Book(wired(inbox, "transactional", topic, under=under), under)
    initialised(Session(config | {"transactional.id": "first"}, book, "first"))  # makes the coordinators' topic
    states = admin.list_topics(STATE_TOPIC, timeout=10).topics[STATE_TOPIC].partitions.values()
    leaders = {state.id: state.leader for state in states}
    names = choose("id-", leaders, [], len(leaders))
    (name,) = (one for one in names if leaders[state_partition(one, len(leaders))] == SUCCESSOR)
    session = Session(config | {"transactional.id": name}, book, name)
    initialised(session)
    assert session.begin()
    written(session)
    session.commit(30)

    assert session.begin()
    written(session)
    size = segment(lab, SUCCESSOR, topic).stat().st_size
    lab.pause(FROZEN)  # so that the leader does not answer, and shorter than its session lasts
    session.send([0])
    deadline = time.monotonic() + 2
    while segment(lab, SUCCESSOR, topic).stat().st_size == size:
        in_time(time.monotonic() < deadline, "it was not replicated in time")
        session.serve(0.01)
    lab.kill(LEADER)
    assert not session.deliver(0.5)
    lab.resume(FROZEN)
    session.abort("not delivered", 60)
    purged = inbox.of(Indeterminate)
    assert [one.sequence for one in purged] == [2]

    if not session.ready:
        initialised(session)
    assert session.begin()
    written(session)
    session.commit(60)
    assert session.open is None
    session.close()
    found = [decode(value, None) for _, _, value in records(lab.bootstrap, topic)]
    assert [one.identity.sequence for one in found if isinstance(one, Probe)] == [0, 3]
    assert [one.sequence for one in inbox.of(Acked)] == [0, 1, 3]
    assert len({one.offset for one in inbox.of(Acked)}) == 3
