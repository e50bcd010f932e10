from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from canary.anomalies.groups.sample import Log, Place
from canary.anomalies.groups.stable import Holder, Stable
from canary.anomalies.violation import Violation

S = 10**9
PLACE = ("orders", 3)
LIMIT_S = 960.0


@dataclass
class World:
    stable: Stable = field(default_factory=lambda: Stable("b1:9092,b2:9092"))
    now_ns: int = 1_700_000_000 * S
    log: Log = field(default_factory=lambda: Log(0, 100, 100))
    holder: Holder = field(default_factory=lambda: Holder(7, 2, "billing-1", 4, "Ongoing", 1, 900_000, known=False))
    said: list[Violation] = field(default_factory=list)
    ended: list[Violation] = field(default_factory=list)
    held: list[Place] = field(default_factory=list)

    def round(self, times: int = 1, *, written: int = 10, told: bool = True) -> None:
        for _ in range(times):
            self.now_ns += 10 * S
            self.log = replace(self.log, end=self.log.end + written)
            logs = {PLACE: self.log} if told else {}
            self.held, over = self.stable.fold(logs, {"orders"}, self.now_ns, LIMIT_S)
            self.ended += over
            for place in self.held:
                view = self.stable.shown(place, self.log, self.holder)
                said = self.stable.said(view, self.now_ns, overdue=True)
                self.said += [] if said is None else [said]


def test_a_last_stable_offset_that_stands_still_for_too_long_is_a_transaction_that_hangs() -> None:
    world = World()
    world.log = Log(0, 110, 100)
    world.round(97)
    assert world.said == []
    world.round(1)
    (said,) = world.said
    assert (said.kind, said.severity, said.topic, said.partition, said.offset) == (
        "hanging-transaction",
        "warning",
        *PLACE,
        100,
    )
    for words in ("producer 7, epoch 2", "billing-1", "broker 4", "nobody will ever end it"):
        assert words in said.summary
    command = (
        "kafka-transactions.sh --bootstrap-server b1:9092,b2:9092 abort --topic orders --partition 3 --start-offset 100"
    )
    assert said.evidence["command"] == command
    assert command in said.summary
    world.round(40)
    assert len(world.said) == 2
    assert len({one.key("c") for one in world.said}) == 1
    world.log = replace(world.log, stable=world.log.end)
    world.round(1, written=0)
    assert [one.key("c") for one in world.ended] == [said.key("c")]


def test_transactions_that_follow_each_other_are_well() -> None:
    world = World()
    for _ in range(500):
        world.round(1)
        world.log = replace(world.log, stable=world.log.end - 5)
    assert (world.held, world.said) == ([], [])


def test_time_in_which_nothing_is_told_is_not_counted() -> None:
    world = World(log=Log(0, 110, 100))
    world.round(50)
    world.round(500, told=False)
    world.round(40)
    assert world.said == []
    world.round(20)
    assert len(world.said) == 1


def test_a_topic_that_is_deleted_ends_it() -> None:
    world = World(log=Log(0, 110, 100))
    world.round(100)
    assert world.stable.reported(world.now_ns)
    for topics, ended in ((set(), 0), ({"orders"}, 0), (set(), 0), (set(), 1)):
        _, over = world.stable.fold({}, topics, world.now_ns, LIMIT_S)
        assert len(over) == ended, "one broker may not know of the topic yet"
    assert world.stable.reported(world.now_ns) == []


@pytest.mark.parametrize(
    ("holder", "words"),
    [
        (Holder(7, 2, "id", 1, "Ongoing", known=True), "and does not end it"),
        (Holder(7, 2, unknown="none knows the producer"), "is unknown (none knows the producer)"),
        (Holder(unknown="TOPIC_AUTHORIZATION_FAILED"), "of a producer that is not known"),
    ],
)
def test_what_is_not_known_of_it_is_said_to_be_unknown(holder: Holder, words: str) -> None:
    world = World(log=Log(0, 110, 100), holder=holder)
    world.round(98)
    assert words in world.said[0].summary
    assert "nobody will ever end it" not in world.said[0].summary
