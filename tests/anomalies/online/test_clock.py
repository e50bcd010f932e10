"""The machine's clock is set, or the machine sleeps, while a canary runs whose own clock does not follow."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from canary import facts as f
from canary.anomalies.online import Findings, Tracker
from canary.anomalies.online.state import Stall
from canary.anomalies.violation import Violation
from tests.anomalies.online.test_tracker_liveness import Watched, read, skews
from tests.anomalies.online.test_tracker_retention import NOW_NS, starts_at
from tests.support.bench import PRODUCER, RC, TOPIC, Bench

if TYPE_CHECKING:
    from collections.abc import Iterator

S = 10**9
HOUR_MS = 3600_000
DAY = 86_400 * S
EARLY = "early-expiry"


@dataclass
class Machine(Bench):
    """A bench on a machine whose clock is ahead of the runner's by ``ahead_s``."""

    now_ns: int = NOW_NS
    ahead_s: int = 0

    def set(self, by_s: int) -> None:
        """Set the machine's clock, or let the machine sleep."""
        self.ahead_s += by_s
        self.fold(f.ClockSeen(self.now_ns, self.ahead_s * S))

    def wrote(self, n: int = 10, *, then_s: int = 0) -> None:
        """Write, let it be read, and let time pass."""
        self.write(n)
        self.settle(1)
        self.now_ns += then_s * S

    def restart(self) -> None:
        """A process begins, whose clock is the machine's."""
        self.now_ns += self.ahead_s * S
        self.ahead_s = 0
        super().restart()


def test_what_expired_while_the_machine_slept_is_as_old_as_brokers_say() -> None:
    """Or while its clock was behind until it was put right, as of a container that began before that."""
    bench = Machine()
    bench.wrote()
    bench.set(7200)
    assert starts_at(bench, 10, HOUR_MS) == []


@pytest.mark.parametrize(("slept_s", "said"), [(1200, [(EARLY, 0, -1)]), (3600, [])])
def test_a_sleep_that_is_too_short_does_not_explain_what_is_gone(
    slept_s: int, said: list[tuple[str, int, int]]
) -> None:
    bench = Machine()
    bench.wrote(then_s=600)
    bench.set(slept_s)
    assert starts_at(bench, 10, HOUR_MS) == said


def test_what_was_sent_after_the_clock_was_put_right_is_as_old_as_it_says() -> None:
    bench = Machine()
    bench.wrote(then_s=60)
    bench.set(7200)
    bench.wrote(then_s=1800)
    assert starts_at(bench, 20, HOUR_MS) == [(EARLY, 0, -1)]


@pytest.mark.parametrize(("age_s", "said"), [(1300, [(EARLY, 0, -1)]), (2500, [])])
def test_what_was_sent_by_a_clock_that_is_behind_expires_early_by_so_much(
    age_s: int, said: list[tuple[str, int, int]]
) -> None:
    """The machine's clock was right, and is set back by 20 minutes: records are dated so much too early."""
    bench = Machine()
    bench.set(-1200)
    bench.wrote(then_s=age_s)
    assert starts_at(bench, 10, HOUR_MS) == said
    bench.now_ns += 7200 * S
    bench.wrote(then_s=2500)
    assert starts_at(bench, 20, HOUR_MS) == [*said, (EARLY, 10, -1)], "two retentions later it is the right one"


def test_what_a_process_sent_whose_clock_was_ahead_of_the_machines_is_older_for_the_next() -> None:
    """It began 20 minutes ahead, was not put right with the machine, and lived for long."""
    bench = Machine()
    bench.set(-1200)
    bench.wrote(then_s=4 * 3600)
    bench.wrote(then_s=1300)
    bench.restart()
    bench.now_ns += (3600 - 1300) * S
    assert starts_at(bench, 20, HOUR_MS) == []
    bench.wrote(then_s=1800)
    assert starts_at(bench, 30, HOUR_MS) == [(EARLY, 20, -1)]


def test_a_start_after_the_machines_clock_was_put_forward_leaves_no_doubt() -> None:
    bench = Machine()
    bench.set(7200)
    bench.restart()
    bench.wrote(then_s=1800)
    assert starts_at(bench, 10, HOUR_MS) == [(EARLY, 0, -1)]


def test_a_step_that_an_older_release_remembers_counts() -> None:
    bench = Machine()
    bench.wrote(then_s=2500)
    dumped = orjson.loads(bench.tracker.dump()) | {"clock_steps": [[bench.now_ns, 1200 * S]]}
    bench.tracker = Tracker.load(orjson.dumps(dumped))
    assert starts_at(bench, 10, HOUR_MS) == []


@pytest.mark.parametrize(("slept_s", "lost"), [(0, 10), (3600, 0)])
def test_of_a_log_that_was_emptied_while_the_machine_slept_what_may_have_expired_is_not_lost(
    slept_s: int, lost: int
) -> None:
    bench = Machine()
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, HOUR_MS, -1, "delete", 2))
    bench.wrote(then_s=120)
    bench.set(slept_s)
    bench.log.clear()
    bench.start, bench.end, bench.epoch = 0, 0, 1
    bench.settle()
    assert len(bench.found("lost-write")) == lost


def test_a_leaders_clock_is_held_against_the_machines_also_after_that_was_set() -> None:
    bench = Watched()
    bench.fold(f.ClockSeen(bench.now_ns, 7200 * S))
    bench.rounds(3)
    read(bench, 7200 * S)
    assert skews(bench) == []
    read(bench, 7200 * S - 11 * S)
    assert len(skews(bench)) == 1


@pytest.mark.parametrize(
    ("set_s", "stamp_s", "said"),
    [
        *((7200, -11, 1), (7200, 0, 0), (7200, 3600, 0), (7200, 7200, 0), (7200, 7240, 1)),
        *((-7200, -7211, 1), (-7200, -7200, 0), (-7200, -3600, 0), (-7200, 20, 0), (-7200, 40, 1)),
    ],
)
def test_what_was_appended_while_the_clock_was_set_has_any_time_in_between(set_s: int, stamp_s: int, said: int) -> None:
    """It was set by two hours between sending and reading, which are 20 s apart by the runner's clock."""
    bench = Watched()
    (offset,) = bench.write(1)
    sent_ns = bench.now_ns
    bench.fold(f.ClockSeen(bench.now_ns + 10 * S, set_s * S))
    bench.now_ns += 20 * S
    place = (bench.now_ns, RC, RC, TOPIC, 0, offset, PRODUCER, 1, offset)
    bench.fold(f.Polled(*place, timestamp_ms=(sent_ns + stamp_s * S) // 1_000_000, sent_at_ns=sent_ns))
    assert len(skews(bench)) == said


def test_a_record_that_was_sent_later_than_it_is_read_says_nothing_of_the_leaders_clock() -> None:
    """The process before had a clock that was an hour ahead."""
    bench = Watched()
    read(bench, -3600 * S, after_ns=-3600 * S)
    assert skews(bench) == []


@dataclass
class Filed:
    """What a tracker reports of a partition that is without a leader for a while, after the machine's clock was set."""

    set_s: int
    tracker: Tracker = field(default_factory=Tracker)
    found: list[Findings] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.fold(f.RunnerStarted(NOW_NS, "canary-0", "test"))
        self.round(0, leader=1)
        self.fold(f.ClockSeen(NOW_NS + 10 * S, self.set_s * S))
        for second in range(20, 40):
            self.round(second, leader=-1)
        for second in range(40, 120):
            self.round(second, leader=1)

    def round(self, second: int, *, leader: int) -> None:
        at = NOW_NS + second * S, second + 1
        seen = f.PartitionSeen(*at, "orders", 0, leader, "1,2,3", "1,2,3")
        self.fold(f.WatchAsked(*at), f.TopicSeen(*at, "orders", "id", 1), seen, f.TopologySeen(*at, "probe"))

    def fold(self, *facts: f.Fact) -> None:
        self.tracker.fold(facts)
        self.found.append(self.tracker.drain())

    def all(self, name: str) -> list[Any]:
        return [one for found in self.found for one in getattr(found, name)]


@pytest.mark.parametrize("set_s", [0, 7200, -7200])
def test_what_is_filed_has_the_time_that_the_machines_clock_said_then(set_s: int) -> None:
    filed = Filed(set_s)
    began, gone, back = (one.at_ns for one in filed.all("changes") if one.subject == "partition")
    assert (began, gone, back) == (NOW_NS, NOW_NS + (20 + set_s) * S, NOW_NS + (40 + set_s) * S)
    (said,), (over,) = filed.all("violations"), filed.all("ended")
    assert (said.kind, over.kind, said.evidence["since_ns"]) == ("offline-partition", "offline-partition", gone)
    assert (said.at_ns, over.at_ns) == (gone + 5 * S, back + 60 * S)
    assert [one.at_ns for one in filed.tracker.topology() if one.subject == "partition"] == [back]


@pytest.mark.parametrize(("set_s", "known"), [(0, True), (7200, True), (-7200, False)])
def test_what_happened_before_the_clock_was_set_keeps_its_time(set_s: int, *, known: bool) -> None:
    """If the clock was set back over it, it is later than it was found, which tells nothing."""
    bench = Machine()
    bench.wrote(then_s=3600)
    before_ns = bench.now_ns
    bench.set(set_s)
    assert starts_at(bench, 10, 30 * 86_400_000) == [(EARLY, 0, -1)]
    (early,) = bench.said
    assert abs(early.at_ns - bench.now_ns - set_s * S) < 60 * S
    assert (early.happened_after_ns is not None) is known
    assert early.happened_after_ns is None or early.happened_after_ns <= before_ns


@dataclass
class PutRight(Machine):
    """A bench whose machine had started with a clock that was a day ahead, and starts again with the right one."""

    def __post_init__(self) -> None:
        self.now_ns += DAY
        super().__post_init__()

    def fold(self, *facts: f.Fact) -> None:
        self.now_ns += 1_000_000
        remembered_ns = self.tracker.state.now_ns or None
        self.tracker.fold(
            [
                replace(one, remembered_ns=remembered_ns) if isinstance(one, f.RunnerStarted) else one
                for one in facts
                if not isinstance(one, f.RereadEnded)  # no fetch is answered
            ]
        )
        found = self.tracker.drain()
        self.requests.extend(found.rereads)
        self.said.extend(found.violations)

    def put_right(self) -> None:
        """Start again a second later, by the right clock."""
        self.now_ns -= DAY - S
        self.restart()

    def sees(self, leader: int = 1) -> None:
        """A round, in which the leader is seen."""
        self.now_ns += S
        self.sample += 1
        at = self.now_ns, self.sample
        self.fold(
            f.WatchAsked(*at),
            f.TopicSeen(*at, TOPIC, self.topic_id, 1),
            f.PartitionSeen(*at, TOPIC, 0, leader, "1,2,3", "1,2,3"),
            f.Listed(*at, TOPIC, 0, self.start, self.end, self.end, self.epoch),
            f.TopologySeen(*at, "probe"),
        )


def times(known: Any, name: str = "") -> Iterator[tuple[str, int]]:
    """Yield what a dump has under names of times."""
    if isinstance(known, dict):
        for key, one in known.items():
            yield from times(one, key if key.endswith("_ns") or not name.endswith("_ns") else name)
    elif isinstance(known, list):
        for one in known:
            yield from times(one, name)
    elif isinstance(known, int) and name.endswith("_ns"):
        yield name, known


def test_nothing_that_is_remembered_of_a_clock_that_was_ahead_happened_later_than_now() -> None:
    bench = PutRight()
    bench.wrote(then_s=60)
    bench.set(3600)
    bench.fold(
        f.LogSized(bench.now_ns, TOPIC, 0, 1000), f.TopicConfigured(bench.now_ns, TOPIC, HOUR_MS, -1, "delete", 2)
    )
    bench.send(3)
    del bench.log[4]
    bench.positions = dict.fromkeys(bench.positions, 0)
    bench.poll()
    bench.sees(leader=2)
    bench.fold(f.TopicGone(bench.now_ns, bench.sample, TOPIC))
    log = bench.tracker.state.topics[TOPIC].logs[0]
    assert log.whole.known_ns > NOW_NS + DAY
    assert log.size is not None
    bench.now_ns -= DAY - S
    bench.tracker = Tracker.load(bench.tracker.dump())
    bench.fold(f.RunnerStarted(began_ns := bench.now_ns, "canary-0", "test"))
    known = dict.fromkeys(times(orjson.loads(bench.tracker.dump())))
    assert len(known) > 20
    assert [one for one in known if one[1] > began_ns] == []
    state = bench.tracker.state
    log = state.topics[TOPIC].logs[0]
    assert (log.whole.known_ns, log.size) == (0, (0, 1000)), "how long before is not known"
    assert {one.at_ns for one in state.clock_steps[:-1]} == {began_ns}
    assert [one.until_ns for one in state.topics[TOPIC].former_retentions] == [began_ns]


def test_a_former_process_that_was_ahead_is_in_no_time_that_is_filed() -> None:
    """A minute was set while it ran, which the process that began a day ahead had from its start."""
    filed = Filed(60)
    filed.fold(f.RunnerStarted(NOW_NS + DAY, "canary-0", "test"))
    filed.fold(f.RunnerStarted(NOW_NS + 180 * S, "canary-0", "test"))
    for second in range(181, 200):
        filed.round(second, leader=-1)
    said = filed.all("violations")[-1]
    assert (said.at_ns, said.evidence["since_ns"]) == (NOW_NS + 186 * S, NOW_NS + 181 * S)


def test_what_stands_since_a_clock_that_was_ahead_is_as_old_as_the_start() -> None:
    bench = PutRight()
    bench.write(10)
    del bench.log[4]
    bench.poll()
    bench.sees()
    bench.send()
    bench.now_ns += 5 * S
    bench.put_right()
    bench.send()
    for _ in range(70):
        bench.sees()
    began_ns = bench.tracker.state.started[1]
    ages = {one.kind: (began_ns - one.evidence["since_ns"]) / 1e9 for one in bench.said}
    assert {kind: 0 <= age_s < 10 for kind, age_s in ages.items()} == {"unwritable": True, "suspected-loss": True}


def test_promises_are_void_ten_seconds_after_the_start_though_their_topic_is_gone_since_tomorrow() -> None:
    bench = PutRight()
    bench.wrote()
    bench.fold(f.TopicGone(bench.now_ns, bench.sample, TOPIC))
    bench.now_ns -= DAY - S
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    for second in range(12):
        bench.fold(f.TopicGone(bench.now_ns + second * S, second, TOPIC))
    assert [one.kind for one in bench.said] == ["promises-void"]


def test_an_epoch_that_began_by_a_clock_that_was_ahead_is_not_that_of_the_next_leader() -> None:
    bench = PutRight()
    bench.wrote()
    bench.sees(leader=1)
    bench.put_right()
    bench.sees(leader=1)
    bench.now_ns += 60 * S
    bench.sees(leader=2)
    assert bench.tracker.state.topology.epochs[TOPIC, 0].former, "it lists the former leader's epoch"


def test_what_was_found_by_a_clock_that_was_ahead_was_found_by_the_start_and_since_when_is_not_known() -> None:
    bench = PutRight()
    found = Violation(
        kind="unwritable",
        severity="critical",
        topic=TOPIC,
        partition=0,
        at_ns=bench.now_ns,
        by="watch",
        summary="no probe was acknowledged",
        evidence={"since_ns": bench.now_ns},
        happened_after_ns=bench.now_ns - S,
    )
    bench.tracker.state.stalls[f"producer/{TOPIC}/0"] = Stall(bench.now_ns, bench.now_ns, found)
    bench.put_right()
    began_ns, said = bench.tracker.state.started[1], bench.tracker.state.stalls[f"producer/{TOPIC}/0"].said
    assert said is not None
    assert (said.at_ns, said.evidence["since_ns"], said.happened_after_ns) == (began_ns, began_ns, None)


def test_memory_that_was_lost_since_tomorrow_was_lost_until_now() -> None:
    bench = PutRight()
    bench.put_right()
    bench.fold(f.MemoryLost(bench.now_ns, bench.now_ns + DAY, "the ledger is damaged"))
    assert [one.evidence["from_ns"] for one in bench.said] == [None]
    assert "acknowledged until" in bench.said[0].summary
