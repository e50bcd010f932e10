"""What the canary must show besides violations: metrics, readiness; and that it has forgotten nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from confluent_kafka import TopicPartition

from canary.drills.rig import direct
from canary.drills.rig.direct import Place
from canary.drills.rig.rig import CLUSTER, Rig, StoppedError
from canary.drills.stage import PROBES
from canary.drills.steps.canary import remember
from canary.drills.steps.step import Step
from canary.probe.identity import Identity


@dataclass(frozen=True, slots=True)
class UntilMetric(Step):
    """The sum of a metric's samples that have these labels is within bounds, in time."""

    name: str
    at_least: float | None = None
    at_most: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    within_s: float = 10.0

    def take(self, rig: Rig) -> None:
        """Ask /metrics."""

        def reached() -> bool:
            value = rig.metric(self.name, **self.labels)
            return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

        rig.expect(reached, self.within_s, str(self))

    def __str__(self) -> str:
        """Say it."""
        labels = ", ".join(f'{name}="{value}"' for name, value in self.labels.items())
        least = f"at least {self.at_least:g}" if self.at_least is not None else ""
        most = f"at most {self.at_most:g}" if self.at_most is not None else ""
        return f"{self.name}{{{labels}}} is {' and '.join(filter(None, (least, most)))}"


@dataclass(frozen=True, slots=True)
class UntilSentence(Step):
    """The cluster's sentence, which is the head of its page, contains these words, in time."""

    words: str
    within_s: float = 10.0

    def take(self, rig: Rig) -> None:
        """Ask the API."""
        path = f"/api/v1/clusters/{CLUSTER}/summary"
        rig.expect(lambda: self.words in rig.canary.get(path).json()["sentence"], self.within_s, str(self))

    def __str__(self) -> str:
        """Say it."""
        return f'the page says "{self.words}"'


@dataclass(frozen=True, slots=True)
class UntilNotReady(Step):
    """/readyz says that this canary is not to be relied on, in time."""

    within_s: float = 10.0

    def take(self, rig: Rig) -> None:
        """Ask it."""
        rig.expect(lambda: rig.canary.get("/readyz").status_code != 200, self.within_s, str(self))

    def __str__(self) -> str:
        """Say it."""
        return "/readyz is not 200"


@dataclass(frozen=True, slots=True)
class UntilReady(Step):
    """/readyz is 200, in time."""

    within_s: float = 10.0

    def take(self, rig: Rig) -> None:
        """Ask it."""
        rig.expect(lambda: rig.canary.get("/readyz").status_code == 200, self.within_s, str(self))

    def __str__(self) -> str:
        """Say it."""
        return "/readyz is 200"


@dataclass(frozen=True, slots=True)
class UntilOver(Step):
    """No violation of this kind is open any more, in time."""

    kind: str
    within_s: float = 30.0

    def take(self, rig: Rig) -> None:
        """Ask the metrics that alerts are made of."""
        UntilMetric("canary_violations_open", at_most=0, labels={"kind": self.kind}, within_s=self.within_s).take(rig)

    def __str__(self) -> str:
        """Say it."""
        return f"{self.kind} is over"


@dataclass(frozen=True, slots=True)
class UntilFound(Step):
    """So many violations of this kind were found, and the newest of them is open, in time."""

    kind: str
    times: int
    within_s: float = 20.0

    def take(self, rig: Rig) -> None:
        """Ask for all of them."""

        def reached() -> bool:
            found = sorted(rig.canary.violations(self.kind), key=lambda one: one["first_seen_at"])
            return len(found) == self.times and found[-1]["state"] == "open"

        rig.expect(reached, self.within_s, str(self))

    def __str__(self) -> str:
        """Say it."""
        return f"{self.kind} was found {self.times} times, and is open"


@dataclass(frozen=True, slots=True)
class UntilHeaded(Step):
    """The incident of each of these partitions that is open is headed by a violation of this kind, in time."""

    kind: str
    partitions: frozenset[tuple[str, int]]
    within_s: float = 15.0

    def take(self, rig: Rig) -> None:
        """Ask for the incidents."""

        def reached() -> bool:
            open_ones = [one for one in rig.canary.items("incidents") if one["state"] == "open"]
            heads = {(one["topic"], one["partition"]): one["kind"] for one in open_ones}
            return all(heads.get(place) == self.kind for place in self.partitions)

        rig.expect(reached, self.within_s, str(self))

    def __str__(self) -> str:
        """Say it."""
        where = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(self.partitions))
        return f"the incidents of {where} are headed by {self.kind}"


@dataclass(frozen=True, slots=True)
class NothingIsWritten(Step):
    """For so long nothing is appended to a topic."""

    seconds: float = 5.0
    topic: str = PROBES

    def take(self, rig: Rig) -> None:
        """Ask a leader for the ends."""
        before = ends(rig, self.topic)
        if rig.stopping.wait(self.seconds):
            raise StoppedError
        if (after := ends(rig, self.topic)) != before:
            rig.complain(f"{self.topic} has grown from {before} to {after}, and nothing should be sent")

    def __str__(self) -> str:
        """Say it."""
        return f"for {self.seconds:g} s nothing is appended to {self.topic}"


@dataclass(frozen=True, slots=True)
class UntilCounted(Step):
    """All that a topic holds now is counted as acknowledged and as seen, in time; no write of it was ever in doubt."""

    within_s: float = 15.0
    topic: str = PROBES

    def take(self, rig: Rig) -> None:
        """Ask a leader for the ends, and the canary for its counters."""
        wanted = ends(rig, self.topic)

        def reached() -> bool:
            return all(
                rig.metric(f"canary_probes_{what}_total", topic=self.topic, partition=str(partition)) >= end
                for partition, end in wanted.items()
                for what in ("acked", "seen")
            )

        rig.expect(reached, self.within_s, f"{self}: {sum(wanted.values())}")

    def __str__(self) -> str:
        """Say it."""
        return f"the counters hold all probes of {self.topic}"


def ends(rig: Rig, topic: str) -> dict[int, int]:
    """Return the end of each partition of a topic, by a leader."""
    consumer = direct.client(rig.lab.bootstrap)
    try:
        return {
            one: consumer.get_watermark_offsets(TopicPartition(topic, one), timeout=10.0, cached=False)[1]
            for one in range(len(rig.stage.topics[topic].replicas))
        }
    finally:
        consumer.close()


@dataclass(frozen=True, slots=True)
class NothingForgotten(Step):
    """Whatever the canary had shown as acknowledged is in its counters and in its probe log, and no identity is twice.

    The probe log is read once the canary has ended, and held against the topic itself.
    """

    topic: str = PROBES

    def take(self, rig: Rig) -> None:
        """Look at the counters now, and at the rest in the end."""
        before = dict(rig.counted)
        for partition, count in sorted(before.items()):
            UntilMetric(
                "canary_probes_acked_total", at_least=count, labels={"partition": str(partition)}, within_s=10
            ).take(rig)
        remember(rig)
        rig.checks.append(lambda: self._check(rig))

    def _check(self, rig: Rig) -> None:
        there = _identities(rig, self.topic)
        logged = {direct.identity(one): one for one in direct.rows(rig.canary.probe_log / "probes")}
        acked = {who: one["offset"] for who, one in logged.items() if one["outcome"] == "acked"}
        if twice := {who: at for who, at in there.items() if len(at) > 1}:
            rig.complain(f"{len(twice)} identities are at two places: {dict(list(twice.items())[:3])}")
        if lost := [who for who, offset in acked.items() if offset not in [at.offset for at in there.get(who, ())]]:
            rig.complain(f"{len(lost)} acknowledged probes are not where they were acknowledged: {lost[:3]}")
        for partition, count in sorted(rig.counted.items()):
            held = sum(who.partition == partition for who in acked)
            if held < count:
                rig.complain(f"the probe log has {held} acknowledged probes of partition {partition}, not {count:.0f}")
        last: dict[tuple[int, int, int], int] = defaultdict(int)
        for who in logged:
            last[who[:3]] = max(last[who[:3]], who.sequence)
        if holes := [who for who in there if who not in logged and who.sequence < last[who[:3]]]:
            rig.complain(f"{len(holes)} probes are in the topic and before the last of the probe log: {holes[:3]}")
        tail = sum(who not in logged for who in there)
        rig.note(f"{len(there)} identities, {len(acked)} acknowledged in the probe log, {tail} newer than a kill")

    def __str__(self) -> str:
        """Say it."""
        return "whatever the canary had shown is still counted"


def _identities(rig: Rig, topic: str) -> dict[Identity, list[Place]]:
    found: dict[Identity, list[Place]] = {}
    for place, who in direct.found(rig.lab.bootstrap, topic).items():
        found.setdefault(who, []).append(place)
    return found
