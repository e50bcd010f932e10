"""A simulated life, lived once before the tracker's eyes, and what both engines say of it."""

from __future__ import annotations

import functools
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from canary import facts as f
from canary.anomalies.offline import Options, check
from canary.anomalies.online import Tracker
from canary.anomalies.online.state import Probed, State
from canary.history.reading import load
from canary.probe.identity import Identity
from simulation.histories.clockwork import TOPIC
from simulation.histories.retelling import Retelling, one_by_one
from simulation.histories.simulator import simulate
from simulation.histories.wild import seeded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from canary.anomalies.offline import Verdict
    from canary.anomalies.online.state import Topic
    from canary.anomalies.violation import RereadRequest, Violation
    from canary.facts import Fact
    from simulation.histories.clockwork import Op, World


@dataclass
class Life:
    """One life.

    Attributes:
        seed: Lives it again.
        broken: The injections.
        world: What happened, and what was broken.
        online: What the tracker said of its facts.
        tracker: As it is at the end.
    """

    seed: int
    broken: tuple[str, ...]
    world: World
    online: Sequence[Violation]
    tracker: Tracker

    @functools.cached_property
    def verdict(self) -> Verdict:
        """What the checker says of the processes' own history."""
        return verdict_on(self.world.history(), Options(sub_via=self.world.sub_via, ww_deps=self.ww_deps))

    @functools.cached_property
    def retelling(self) -> Retelling:
        """The canary's facts told as a history."""
        return Retelling(self.world.facts(), lambda identity: self.world.homes[identity])

    @functools.cached_property
    def offline(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """What the checker says of the facts told as a history, by the anomaly's name."""
        return verdict_on(self.retelling.told, Options(ww_deps=False)).anomalies

    @property
    def ww_deps(self) -> bool:
        """Whether the checker infers dependencies between writes: with them, a circle of reads is no G1c."""
        return "G1c" not in self.broken

    def topics(self) -> Iterable[Topic]:
        """Return what the tracker remembers of its topics."""
        return self.tracker.state.topics.values()

    def untold(self) -> set[tuple[Identity, int]]:
        """Return which probes stand where without a word of it: none, here the history has all offsets."""
        return set()

    def was_cut(self, _key: str) -> bool:
        """Whether a log may have been cut without a word of it: never, here the tracker says each cut."""
        return False

    def was_sent_after(self, _over: Identity, _to: Identity) -> bool:
        """Whether a consumer was given a probe before one below it was sent: never, as long as nothing is cut off."""
        return False

    def moved(self, _identity: Identity) -> bool:
        """Whether the tail was put back to read it again without a word of it: never, the history has each assign."""
        return False

    def forgotten(self, _identity: Identity) -> bool:
        """Whether somebody had expired before it was read: never, here every leader has the same start."""
        return False

    def unrecorded(self, _identity: Identity) -> bool:
        """Whether somebody may have been sent whom the ledger does not know: never, here no process dies in between."""
        return False

    def at_once(self) -> set[Identity]:
        """Return who was sent by another process, as one was busy with an earlier send: none, here one sends all."""
        return set()

    def said(self, *kinds: str) -> list[Violation]:
        """Return what the tracker said of some kinds."""
        return [v for v in self.online if v.kind in kinds]

    def identities(self, *kinds: str) -> set[Identity]:
        """Return whose violations of some kinds the tracker named."""
        return {v.identity for v in self.said(*kinds) if v.identity is not None}

    def key(self, partition: int | None) -> str:
        """Return the key of a partition in the topic's last incarnation."""
        return f"{partition}@2" if self.world.void else f"{partition}"

    def places(self, *kinds: str) -> set[tuple[str, int]]:
        """Return where the tracker found some kinds."""
        return {(self.key(v.partition), v.offset) for v in self.said(*kinds) if v.offset is not None}

    def cases(self, *names: str) -> Iterable[Mapping[str, Any]]:
        """Return what the checker said of the facts told as a history."""
        return (case for name in names for case in self.offline.get(name, ()))


def configured() -> Tracker:
    """Return a tracker whose settings want the simulated topic probed."""
    return Tracker(State(probed={TOPIC: Probed([], [])}))


def lived(seed: int, *broken: str) -> Life:
    """Live with ``broken`` injected before the tracker's eyes."""
    trackers = [configured()]
    found: dict[str, Violation] = {}
    dice = seeded(seed)

    def listen(facts: Sequence[Fact]) -> Sequence[RereadRequest]:
        if dice.random() < 0.003:  # a replay from its own dump must be the same fold
            trackers[0] = Tracker.load(trackers[0].dump())
        trackers[0].fold(facts)
        findings = trackers[0].drain()
        for violation in findings.violations:
            for one in one_by_one(violation):
                found.setdefault(one.key("test"), one)
        return findings.rereads

    world = simulate(seed, inject=broken, listener=listen)
    return Life(seed, broken, world, list(found.values()), trackers[0])


def verdict_on(history: Sequence[Op], options: Options) -> Verdict:
    """Return what the checker says of a history."""
    return check(load(io.BytesIO(b"".join(orjson.dumps(op) + b"\n" for op in history)), "history"), options)


def promises(facts: Sequence[Fact]) -> set[Identity]:
    """Return who was acknowledged and, if of a transaction, is known to have been committed."""
    committed = {(x.producer_id, x.generation, x.transaction_id) for x in facts if isinstance(x, f.Committed)}
    acked = {identity_of(x) for x in facts if isinstance(x, f.Acked)}
    sent = (x for x in facts if isinstance(x, f.Sent))
    return acked & {
        identity_of(x)
        for x in sent
        if x.transaction_id is None or (x.producer_id, x.generation, x.transaction_id) in committed
    }


def identity_of(fact: f.Sent | f.Acked | f.Polled) -> Identity:
    """Return whose fact it is."""
    return Identity(fact.producer_id, fact.generation, fact.partition, fact.sequence)
