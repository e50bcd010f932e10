"""What should be changed about the probe topics, decided from what is. Pure.

The aim: every broker leads at least one probe partition, so that every broker is probed. The plan looks at the
preferred leader, the first of a partition's replicas: where another one leads at the moment, an election will correct
that. Example: of brokers 1, 2, 3 broker 3 is no partition's preferred leader; the plan adds one partition, led by 3.
Never proposed: moving replicas (a broker that is down comes back, and this client could not move them), deleting
anything, electing leaders. Whether an absent broker was decommissioned is known only from a vendor's admin API.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from canary.kafka.topic_creation import Broker, spread
from canary.watching.vendor_api import Member

Action = Literal["create", "add-partitions", "configure"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A probe topic as the settings want it."""

    name: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Existing:
    """A probe topic as it is: each partition's replicas, the preferred leader first, and the settings in force."""

    replicas: Sequence[Sequence[int]]
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """One change: ``assignments`` are replicas of new partitions, the leader first; ``config`` what is to be set."""

    action: Action
    topic: str
    why: str
    assignments: tuple[tuple[int, ...], ...] = ()
    config: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What to change, and what to know that is not changed."""

    changes: tuple[Change, ...]
    remarks: tuple[str, ...]


def plan(
    wanted: Wanted, existing: Existing | None, brokers: Sequence[Broker], members: Iterable[Member] | None = None
) -> Plan:
    """Return what to change about one topic; ``existing`` is None where there is no such topic.

    ``brokers`` are the live ones, ``members`` those that belong to the cluster, where that is known: a member that is
    leaving gets no partition.
    """
    factor = wanted.replication_factor
    belong = None if members is None else {member.id: member for member in members}
    leaving = {} if belong is None else {n: one for n, one in belong.items() if one.membership != "active"}
    brokers = [broker for broker in brokers if broker.id not in leaving]
    if existing is None:
        if len(brokers) < factor:
            return Plan((), (f"{wanted.name}: {factor} replicas need as many brokers, and {len(brokers)} live",))
        count = max(wanted.partitions, len(brokers))
        assignments = tuple(tuple(one) for one in spread(brokers, count, factor))
        why = "it does not exist" + (
            f"; {count} partitions, so that every broker leads one" if count > wanted.partitions else ""
        )
        return Plan((Change("create", wanted.name, why, assignments, tuple(sorted(wanted.config.items()))),), ())
    changes: list[Change] = []
    remarks = [*_away(wanted, existing, brokers, belong), *_too_few(wanted, existing, brokers)]
    added, why = _partitions(wanted, existing, brokers)
    if added and len(brokers) < factor:
        remarks.append(f"{wanted.name}: partitions are missing, and fewer brokers live than a partition has replicas")
    elif added:
        changes.append(Change("add-partitions", wanted.name, why, added))
    differing = tuple(sorted((k, v) for k, v in wanted.config.items() if existing.config.get(k) not in (None, v)))
    if differing:
        was = ", ".join(f"{name} is {existing.config[name]}" for name, _ in differing)
        changes.append(Change("configure", wanted.name, was, config=differing))
    return Plan(tuple(changes), tuple(remarks))


def _partitions(
    wanted: Wanted, existing: Existing, brokers: Sequence[Broker]
) -> tuple[tuple[tuple[int, ...], ...], str]:
    """Return replicas of the partitions to add: one for each live broker that is no preferred leader."""
    leading = Counter(replicas[0] for replicas in existing.replicas if replicas)
    idle = [broker.id for broker in sorted(brokers) if not leading[broker.id]]
    short = wanted.partitions - len(existing.replicas) - len(idle)
    others = sorted((broker.id for broker in brokers if leading[broker.id]), key=lambda one: (leading[one], one))
    leaders = [*idle, *(others[turn % len(others)] for turn in range(short) if others)]
    rings = {one[0]: tuple(one) for one in spread(brokers, len(brokers), min(wanted.replication_factor, len(brokers)))}
    why = f"brokers {', '.join(map(str, idle))} lead no probe partition" if idle else "fewer partitions than wanted"
    return tuple(rings[leader] for leader in leaders if leader in rings), why


def _away(
    wanted: Wanted, existing: Existing, brokers: Sequence[Broker], belong: Mapping[int, Member] | None
) -> Iterator[str]:
    """Yield remarks on brokers that hold replicas and get no new ones."""
    absent = sorted({one for replicas in existing.replicas for one in replicas} - {broker.id for broker in brokers})
    leaving = [one for one in absent if belong is not None and one in belong and belong[one].membership != "active"]
    removed = [one for one in absent if belong is not None and one not in belong]
    down = [one for one in absent if one not in leaving and one not in removed]
    if down:
        unknown = "" if belong is not None else " (whether one was decommissioned is not available here)"
        yield (
            f"{wanted.name}: brokers {_numbers(down)} hold replicas and are not there; nothing is moved away from a "
            f"broker that may come back{unknown}"
        )
    if leaving:
        yield f"{wanted.name}: brokers {_numbers(leaving)} are being decommissioned; the cluster moves their replicas"
    if removed:
        yield (
            f"{wanted.name}: brokers {_numbers(removed)} hold replicas and are no members of the cluster any more; "
            "move the replicas to others"
        )


def _too_few(wanted: Wanted, existing: Existing, brokers: Sequence[Broker]) -> Iterator[str]:
    """Yield what to do by hand about partitions that have fewer replicas than wanted."""
    fewer = [number for number, replicas in enumerate(existing.replicas) if len(replicas) < wanted.replication_factor]
    if fewer and len(brokers) >= wanted.replication_factor:
        rings = {one[0]: one for one in spread(brokers, len(brokers), wanted.replication_factor)}
        moves = [
            {"topic": wanted.name, "partition": number, "replicas": rings[existing.replicas[number][0]]}
            for number in fewer
            if existing.replicas[number] and existing.replicas[number][0] in rings
        ]
        document = json.dumps({"version": 1, "partitions": moves})
        yield (
            f"{wanted.name}: {len(fewer)} partitions have fewer replicas than {wanted.replication_factor}; this client "
            f"cannot reassign: kafka-reassign-partitions.sh --execute with {document}"
        )


def _numbers(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))
