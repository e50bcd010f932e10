"""A topic and its mirror on real brokers, where the test copies in the place of MirrorMaker 2.

tests/watching/test_mirrormaker_itself.py has MirrorMaker 2.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from canary.anomalies.mirrormaker.facts import Checkpoint
from canary.anomalies.mirrormaker.mirror import Link, Mirror, MirrorView
from canary.probe import record
from canary.probe.identity import Identity
from canary.settings import ClusterSettings, consumer_config
from canary.threads.ports import SteadyClock
from canary.watching.mirrormaker.checkpoints import decoded, encoded
from canary.watching.mirrormaker.mirror_watcher import MirrorProgress, MirrorWatcher
from tests.support.heard import Heard
from tests.support.waiting import in_time, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from canary.anomalies.violation import Violation
    from canary.lab import Lab

S = 10**9
SOURCE, MIRRORED, POINTS = "probes", "dc1.probes", "dc1.checkpoints.internal"
PRODUCER_ID = secrets.randbits(63)


class Pair:
    """Both topics, and what was written: (offset, key, value) by sequence."""

    def __init__(self, lab: Lab) -> None:
        self.config = {"bootstrap.servers": lab.bootstrap, "log_level": 0}
        self.admin = AdminClient(self.config)
        self.clock = SteadyClock()
        self.heard = Heard()
        self.mirror = Mirror(Link("dc1", SOURCE, MIRRORED, 60.0), confirm_s=0.5)
        self.progress = MirrorProgress()
        self.producer = Producer({**self.config, "enable.idempotence": True, "linger.ms": 0})
        self.offsets: dict[int, int] = {}
        self.copied: dict[int, int] = {}
        self.values: dict[int, tuple[bytes, bytes]] = {}
        self.make(SOURCE)
        properties = consumer_config(ClusterSettings(kafka={"bootstrap.servers": lab.bootstrap}), "read_committed")  # type: ignore[call-arg]
        self._properties = properties
        self.watcher = self._new()

    def _new(self) -> MirrorWatcher:
        both = self._properties, self._properties
        return MirrorWatcher(*both, self.mirror, self.progress, POINTS, self.heard, self.clock, 0.1)

    def make(self, *names: str) -> None:
        for name in names:
            self.admin.create_topics([NewTopic(name, 1, 3)])[name].result(30)

    def restart(self) -> None:
        in_time(self.watcher.stop(20))
        self.watcher = self._new()
        self.watcher.start()

    def _send(
        self, producer: Any, topic: str, contents: Iterable[tuple[int, bytes, bytes]], age_s: int = 0
    ) -> dict[int, int]:
        at_ms = (self.clock.now_ns() - age_s * S) // 10**6
        done: dict[int, int] = {}

        def acked(number: int) -> Callable[[Any, Any], None]:
            return lambda error, message: done.__setitem__(number, message.offset()) if error is None else None

        for number, key, value in contents:
            producer.produce(topic, key=key, value=value, partition=0, timestamp=at_ms, on_delivery=acked(number))
        in_time(producer.flush(30) == 0, "all acknowledgements")
        return done

    def write(self, *numbers: int, producer: Any = None, age_s: int = 0) -> None:
        for number in numbers:
            identity = Identity(PRODUCER_ID, 1, 0, number)
            sent_at_ns = self.clock.now_ns() - age_s * S
            value = record.encode(identity, tag=b"abcd", mode="idempotent", transaction_id=None, sent_at_ns=sent_at_ns)
            self.values[number] = record.key(identity), value
        self.offsets |= self._send(producer or self.producer, SOURCE, self._of(numbers), age_s)

    def _of(self, numbers: Iterable[int]) -> list[tuple[int, bytes, bytes]]:
        return [(number, *self.values[number]) for number in numbers]

    def copy(self, *numbers: int, age_s: int = 0) -> None:
        self.copied |= self._send(self.producer, MIRRORED, self._of(numbers), age_s)

    def copy_with_another_key(self, number: int) -> None:
        self._send(self.producer, MIRRORED, [(number, b"other", self.values[number][1])])

    def point(self, upstream: int, downstream: int) -> None:
        key, value = encoded(MIRRORED, Checkpoint("billing", 0, upstream, downstream))
        self._send(self.producer, POINTS, [(0, key, value)])

    @property
    def view(self) -> MirrorView:
        return self.watcher.latest

    def over(self, violation: Violation) -> bool:
        return violation.key("dc2") in {one.key("dc2") for one in self.heard.over}

    def until(self, reached: Callable[[MirrorView], Any], what: str) -> None:
        until(lambda: reached(self.view), 20, f"{what}; {self.view}, {self.heard.said}")


@pytest.fixture(name="pair")
def _pair(lab: Lab) -> Iterator[Pair]:
    pair = Pair(lab)
    yield pair
    pair.watcher.stop(20)


@pytest.mark.kafka
def test_what_is_skipped_late_copied_again_or_changed_is_found_by_identity_and_what_is_well_is_not(pair: Pair) -> None:
    pair.write(*range(10))
    pair.watcher.start()
    pair.until(lambda view: view.unknown and MIRRORED in view.unknown, "there is no mirrored topic yet")
    assert pair.view.recovery_point_s is None
    pair.make(MIRRORED, POINTS)
    pair.until(lambda view: view.recovery_point_s, "nothing is copied: it is behind")
    transactional = Producer({**pair.config, "transactional.id": "t"})
    transactional.init_transactions(30)
    for outcome, numbers in (("abort", range(100, 105)), ("commit", range(10, 20))):
        transactional.begin_transaction()
        pair.write(*numbers, producer=transactional)
        (transactional.commit_transaction if outcome == "commit" else transactional.abort_transaction)(30)
    pair.copy(*range(20))
    pair.until(lambda view: view.recovery_point_s == 0.0 and view.counts["copied"] == 20, "all is copied")
    pair.copy(100, 101)  # by default MirrorMaker 2 reads what is aborted, too
    pair.until(lambda view: view.counts["foreign"] == 2, "what was aborted is nothing that the source has")
    assert pair.heard.said == []

    pair.point(pair.offsets[5], pair.copied[5])
    pair.until(lambda view: [(one.skips, one.rereads) for one in view.failovers] == [(0, 0)], "a right translation")
    pair.point(pair.offsets[5], pair.copied[8])
    pair.until(lambda _: pair.heard.first("mirror-offset-skips"), "a failover would skip three")
    skipping = pair.heard.first("mirror-offset-skips")
    assert skipping is not None
    assert (skipping.evidence["skips"], skipping.evidence["group"], skipping.offset) == (3, "billing", pair.copied[8])
    assert skipping.evidence["first_skipped_source_offset"] == pair.offsets[5]
    pair.point(pair.offsets[5], pair.copied[4])
    pair.until(lambda view: [one.rereads for one in view.failovers] == [1], "it would give one again")
    assert pair.over(skipping)

    pair.write(*range(20, 30))
    pair.copy(20, 21, 25, 26)
    pair.until(lambda _: pair.heard.first("mirror-gap"), "three are missing")
    gap = pair.heard.first("mirror-gap")
    assert gap is not None
    assert [(run.offset, run.size, run.identity and run.identity.sequence) for run in gap.runs] == [
        (pair.offsets[22], 3, 22)
    ]
    assert (gap.evidence["mirror_offset_before"], gap.evidence["mirror_offset_after"]) == (
        pair.copied[21],
        pair.copied[25],
    )
    assert pair.view.missing == 3
    pair.copy(24, 25, 26, 27, 28, 29)
    pair.until(lambda _: pair.heard.first("mirror-copies"), "two are there again")
    copies = pair.heard.first("mirror-copies")
    assert copies is not None
    assert (copies.severity, copies.evidence["copies"]) == ("info", 2)
    assert copies.evidence["source_offsets"] == [pair.offsets[25], pair.offsets[26]]
    assert not pair.over(gap)
    pair.copy(22, 23)
    pair.until(lambda _: pair.over(gap), "the gap is filled")
    assert (pair.view.missing, pair.view.waiting) == (0, 0)

    pair.write(30)
    pair.copy_with_another_key(30)
    pair.until(lambda _: any(one.evidence.get("why") == "changed" for one in pair.heard.said), "a key was changed")
    assert len(pair.heard.said) == 4, pair.heard.said


@pytest.mark.kafka
def test_another_thread_goes_on_where_the_one_before_it_ended_and_a_mirror_that_is_made_anew_is_read_anew(
    pair: Pair,
) -> None:
    pair.make(MIRRORED)
    pair.write(*range(20))
    pair.copy(*range(10))
    pair.watcher.start()
    pair.until(lambda view: view.counts["copied"] == 10, "what is there is read")
    assert pair.view.translation_unknown is not None, "there is no topic of checkpoints"
    pair.restart()
    pair.copy(*range(10, 15))
    pair.until(lambda view: view.counts["copied"] == 15, "the next thread reads on")
    pair.restart()
    pair.admin.delete_topics([MIRRORED])[MIRRORED].result(30)
    pair.until(lambda view: view.unknown and "there is no" in view.unknown, "it is gone")
    pair.make(MIRRORED)
    pair.copy(*range(20))
    pair.until(lambda view: view.recovery_point_s == 0.0 and not view.waiting, "it is there again, with everything")
    assert pair.heard.said == []
    waited = 5  # and more, where brokers tell of the deletion at different times, so that it is begun anew again
    assert pair.view.counts["unjudged"] >= waited, "what waited when the mirror was deleted"


@pytest.mark.kafka
def test_a_start_goes_back_to_the_newest_copy_though_it_is_hours_old(pair: Pair) -> None:
    pair.make(MIRRORED)
    for first, hours in ((0, 30), (5, 12), (10, 6), (15, 3)):
        pair.write(*range(first, first + 5), age_s=hours * 3600)
    pair.copy(*range(5), age_s=30 * 3600)
    pair.copy(*range(5, 10), age_s=12 * 3600)
    pair.watcher.start()
    pair.until(lambda view: (view.recovery_point_s or 0) >= 6 * 3600, "all since then is not copied")
    pair.copy(15, 16)
    pair.until(lambda _: pair.heard.first("mirror-gap"), "five were passed over")
    (gap,) = pair.heard.said
    assert (gap.offset, gap.count) == (pair.offsets[10], 5)
    assert pair.view.counts["copied"] == 7, "it goes no further back than to the newest copy"


def test_a_checkpoint_is_read_as_mirrormaker_writes_it_and_anything_else_is_none() -> None:
    point = Checkpoint("büro", 3, 2**40, 7)
    key, value = encoded("dc1.orders", point)
    assert key == b"\0\5b\xc3\xbcro\0\x0adc1.orders\0\0\0\3"
    assert decoded(key, value) == ("dc1.orders", point)
    taken_from_4_1 = b"\0\3g-1\0\ndc1.probes\0\0\0\0", b"\0\0\0\0\0\0\0\0\x02j\0\0\0\0\0\0\0y\0\0"
    assert decoded(*taken_from_4_1) == ("dc1.probes", Checkpoint("g-1", 0, 618, 121))
    for cut in range(len(key)):
        assert decoded(key[:cut], value) is None
    for cut in range(len(value) - 2):
        assert decoded(key, value[:cut]) is None
    assert decoded(key, b"\0\1" + value[2:]) is None, "another version"
    assert decoded(None, value) is decoded(key, None) is None
