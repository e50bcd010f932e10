"""An hour of a canary that probes a thousand times a second, while brokers fail one at a time.

Nothing is destroyed: a broker is killed, frozen or stopped, and comes back; the next one fails once every partition has
all its replicas in sync again. So nothing may be said but what a plain client reads as well: a client that sends again
under a new producer epoch does write a probe twice. In the first twelfth of the time the canary is killed (-9), too;
then it lives on, and from the first sixth on what it holds must not grow any more: what was written first has expired.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Final

from confluent_kafka import TopicPartition

from canary.drills.rig import direct
from canary.drills.rig.rig import NotInTimeError, Rig, StoppedError
from canary.drills.stage import PROBES, Stage, Topic
from canary.drills.steps.brokers import Kill, Pause, Resume, Start, Stop
from canary.drills.steps.canary import KillCanary, StartCanary, remember, until_probing
from canary.drills.steps.waiting import Pass
from canary.lab import LabError, NodeProperties
from canary.probe.record import Probe, decode
from tests.soak.measured import Meter, growth
from tests.support.labs import Watched
from tests.support.stalls import Condition, explained, witnesses

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from threading import Event

    from canary.drills.steps.step import Step

_EXPIRING: Final = NodeProperties({"log.retention.check.interval.ms": 10_000, "log.initial.task.delay.ms": 1_000})
_PARTITIONS: Final = 50
_BROKERS: Final = (1, 2, 3)
_SETTLED: Final = 1 / 6
"""Of the whole time: ten minutes of an hour."""
_MOST_GROWTH: Final = 0.02
_MOST_MORE: Final = 2
"""Descriptors and threads; connections come and go."""
_JUDGED_MINUTES: Final = 30.0
"""A shorter life is still settling: what it holds is told, and not judged."""
_TRUE: Final = frozenset({"under-replicated"})
"""What is true of a cluster without one of its brokers."""


def lived(
    directory: Path, stopping: Event, tell: Callable[[str], None], *, minutes: float, rate: int, seed: int
) -> list[str]:
    """Live for so long; return what is wrong."""
    witnesses.start()
    with Watched(directory / "lab", profile="quick", properties=_EXPIRING, die_with_parent=True) as lab:
        rig = Rig(
            kafka={"bootstrap.servers": lab.bootstrap},
            stopping=stopping,
            tell=tell,
            lab=lab,
            stage=_stage(rate, minutes),
            directory=directory,
        )
        began = time.time()
        rig.canary.start()
        meter = Meter(lambda: _pids(rig), directory / "held.csv")
        try:
            until_probing(rig)
            tell(f"it probes: {rig.canary.base}")
            meter.start()
            borne_out = _live(rig, 60 * minutes, random.Random(seed))  # noqa: S311  # moments, no secrets
            wrong = _judge(rig, began, borne_out)
            meter.end()
            wrong += _held(meter, tell, 60 * minutes)
            if any(found := rig.canary.stop()):
                wrong.append(f"the canary ended with {found}")
        except (LabError, StoppedError) as error:
            wrong = [f"{type(error).__name__}: {error}; {rig.canary.ended() or 'the canary runs'}"]
        finally:
            rig.canary.kill()
    return wrong


def _stage(rate: int, minutes: float) -> Stage:
    replicas = tuple(tuple((first + n) % 3 + 1 for n in range(3)) for first in range(_PARTITIONS))
    kept_ms = round(60_000 * minutes * _SETTLED)
    config = {"retention.ms": f"{kept_ms}", "segment.ms": f"{max(kept_ms // 10, 10_000)}"}
    interval_ms = round(1000 * _PARTITIONS / rate)
    return Stage(topics={PROBES: Topic(replicas, config)}, modes={"idempotent": {"interval": f"{interval_ms}ms"}})


def _pids(rig: Rig) -> dict[str, int]:
    return {part: one.pid for part, one in zip(rig.canary.parts, rig.canary.processes, strict=True)}


def _live(rig: Rig, seconds: float, chance: random.Random) -> list[str]:
    """Let brokers fail for so long; return the violations that a plain client has seen to be true."""
    began, twice = time.monotonic(), dict[str, bool]()
    while (passed := time.monotonic() - began) < seconds - 30:
        for step in _fault(chance, canary=passed < _SETTLED * seconds / 2):
            rig.note(f"{time.monotonic() - began:4.0f} s: {step}")
            step.take(rig)
        rig.until(lambda: _all_in_sync(rig), 60, "every replica is in sync again")
        if ended := rig.canary.ended():
            raise LabError(f"the canary has ended: {ended}")
        Pass(chance.uniform(3, 12)).take(rig)
        for one in rig.canary.violations():
            if one["kind"] == "duplicate" and one["id"] not in twice:
                twice[one["id"]] = _stands_twice(rig, one["id"])
    Pass(max(seconds - (time.monotonic() - began), 0)).take(rig)
    return [one for one, borne_out in twice.items() if borne_out]


def _stands_twice(rig: Rig, violation: str) -> bool:
    """Return whether a plain client reads one probe at both offsets: librdkafka sends again under a new epoch."""
    said = rig.canary.get(f"/api/v1/violations/{violation}").json()
    read = []
    consumer = direct.client(rig.lab.bootstrap)
    try:
        for offset in said["evidence"]["offsets"]:
            consumer.assign([TopicPartition(said["topic"], said["partition"], offset)])
            read += [(one.offset(), decode(one.value() or b"", None)) for one in consumer.consume(1, 30)]
    finally:
        consumer.close()
    rig.note(f"it says that a probe stands twice; a plain client reads {read}")
    same = len({probe for _, probe in read}) == 1 and all(isinstance(probe, Probe) for _, probe in read)
    return same and [offset for offset, _ in read] == said["evidence"]["offsets"]


def _fault(chance: random.Random, *, canary: bool) -> tuple[Step, ...]:
    node, long = (chance.choice(_BROKERS),), Pass(round(chance.uniform(0.5, 8), 1))
    faults: list[tuple[Step, ...]] = [
        (Kill(node), long, Start(node)),
        (Pause(node), long, Resume(node)),
        (Stop(node), Start(node)),
    ]
    if canary:
        faults += [(KillCanary(), StartCanary())] * 2
    return chance.choice(faults)


def _all_in_sync(rig: Rig) -> bool:
    partitions = rig.admin.list_topics(PROBES, timeout=10).topics[PROBES].partitions.values()
    return len(rig.lab.alive()) == len(_BROKERS) and all(len(one.isrs) == len(_BROKERS) for one in partitions)


def _judge(rig: Rig, began: float, borne_out: Sequence[str]) -> list[str]:
    """Return what it says that nothing explains; and whether it still works.

    ``borne_out``: the violations that a plain client has seen to be true.
    """
    wrong = []
    try:
        until_probing(rig)
        rig.until(lambda: rig.metric("canary_suspects") == 0, 60, "nothing is in doubt")
        rig.until(lambda: _oldest_unseen(rig) < 5, 60, "everything acknowledged has been seen")
    except NotInTimeError as error:
        wrong.append(str(error))
    happened = rig.lab.events()
    said = rig.canary.violations()
    remember(rig)
    rig.note(
        f"{sum(rig.counted.values()):,.0f} probes were acknowledged; it said {len(said)} things, "
        f"of which a plain client has seen {len(borne_out)}"
    )
    for one in said:
        if (
            one["kind"] not in _TRUE
            and one["id"] not in borne_out
            and not explained(Condition.of_rest(one), happened, began)
        ):
            detail = rig.canary.get(f"/api/v1/violations/{one['id']}").json()
            wrong.append(f"{one['severity']} {one['kind']} in {one['topic']}-{one['partition']}: {detail}")
    return wrong


def _oldest_unseen(rig: Rig) -> float:
    return max(one.value for one in rig.canary.samples() if one.name == "canary_unseen_oldest_seconds")


def _held(meter: Meter, tell: Callable[[str], None], seconds: float) -> list[str]:
    wrong = []
    for part, found in meter.found.items():
        grown = growth(part, found, _SETTLED * seconds, found[-1].at_s)
        if grown is None:
            wrong.append(f"{part} did not live from the time when it should have settled to the end")
            continue
        tell(str(grown))
        if seconds < 60 * _JUDGED_MINUTES:
            continue
        more = max(b - a for a, b in (grown.descriptors, grown.threads))
        if grown.memory_ratio > _MOST_GROWTH or more > _MOST_MORE:
            wrong.append(f"it grows: {grown}")
    return wrong
