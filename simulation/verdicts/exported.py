"""A life's probe log, exported as `canary export` does, and judged by `canary check`: held against the tracker.

The rules of `simulation.histories.agreement` decide; they look at one topic at a time. They know of no destroyed
ledgers and no wrong clocks, so a topic is left out

* where the canary's memory was lost or rotted: what it forgot it cannot say;
* where the topic was made anew or was gone: what was acknowledged meanwhile is void online, and has a row all the same;
* where the canary's clock was stepped: a history is in the order of its times;
* where another cluster answered: its acknowledgements are void online, and have rows.

And of the rest is excused

* a read before its commit: a history of the probe log has only times, and the ledger's order decides that;
* a promise that no consumer had been given when its mode was switched off: online it is unverified, and waits no more;
* an aborted read of what had expired before it was read: a later leader that had deleted less gave it, and the tracker
  has forgotten the outcome;
* an offset with two identities, the order of two sends, and a copy, where one of the two is of a transaction that is
  not committed, or was given to no read_committed consumer: a history of the probe log has no offsets of writes that
  are not committed, and no read_uncommitted consumer of their topic;
* an offset with two values, or a value at two offsets, in a log from which something went but by retention: a history
  has no word for a cut, and the next record gets the offset of what was cut off;
* a consumer that jumped over what was not sent yet, into a place from which something was cut off, for the same reason;
* a consumer that goes back where the canary put it back, to the end of a log that was cut: no row tells of that;
* the order of two sends that were under way at once: in a history two processes send them, each in its order;
* a phantom of which no sending is in the ledger: a generation's last sends before its process died (ANOMALIES Part II);
  the history does not tell which generations have ended.
"""

from __future__ import annotations

import io
from collections import defaultdict
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from canary import facts as f
from canary.anomalies.offline import Options, check
from canary.history.reading import load
from canary.history.writing import write_jsonl
from canary.probe.identity import Identity
from canary.probe.record import key
from simulation.histories import agreement
from simulation.histories.lives import promises
from simulation.histories.retelling import one_by_one
from storage.probe_log.windows import WindowRows, as_history

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from canary.anomalies.online.state import Topic
    from canary.anomalies.violation import Violation
    from simulation.world.world import World

RULES: Sequence[Any] = (
    agreement.reads,
    agreement.places,
    agreement.losses,
    agreement.skips,
    agreement.orders,
)

_CLOSED = "closed"
"""The home of what was promised before its mode was switched off, and that is not said to be lost."""


class ExportedLife:
    """One topic of a life, in the shape of `simulation.histories.lives.Life`."""

    def __init__(self, world: World, rows: WindowRows, known: Topic, forgotten: Callable[[bytes], bool]) -> None:
        topic = known.name
        self.seed = topic
        self.broken: tuple[str, ...] = ()
        self._truth = world.truth
        self._topic, self._known = topic, known
        self._forgotten = forgotten
        self._rows = WindowRows(_of(topic, rows.probes), rows.transactions, _of(topic, rows.polls))
        self._online = [one for _, v in world.truth.violations if v.topic == topic for one in one_by_one(v)]
        self._facts = [fact for fact in world.facts if getattr(fact, "topic", topic) == topic]
        closed_at = world.closed_at.get(topic, -1.0)
        quiet = {*map(_named, self._rows.probes)} - self.identities("lost-write")
        closed = {who for who in quiet if world.truth.promised.get(key(who), closed_at + 1) <= closed_at}
        homes = defaultdict(str, dict.fromkeys(closed, _CLOSED))
        self.world = SimpleNamespace(homes=homes, void=frozenset({_CLOSED}), facts=lambda: self._facts, injected=())

    @cached_property
    def _told(self) -> Sequence[Any]:
        return list(as_history(self._rows))

    @cached_property
    def _offline(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        file = io.BytesIO()
        write_jsonl(self._told, file)
        file.seek(0)
        return check(load(file, "history"), Options(ww_deps=False)).anomalies

    @cached_property
    def retelling(self) -> Any:
        """What the rules ask of how the life was told."""
        polled = (x for x in self._facts if isinstance(x, f.Polled) and x.isolation == "read_committed")
        kept = (x for x in self._rows.polls if x["isolation"] == "read_committed")  # or was killed then
        return SimpleNamespace(
            given={_identity(x) for x in polled} | set(map(_named, kept)),
            indeterminate={_identity(x) for x in self._facts if isinstance(x, f.Indeterminate)},
            told=[{"f": one.f} for one in self._told],
            transaction_of=defaultdict(lambda: None),
        )

    def topics(self) -> Iterable[Topic]:
        """Return what the tracker remembers of the topic."""
        return (self._known,)

    def said(self, *kinds: str) -> list[Violation]:
        """Return what the tracker said of some kinds."""
        return [v for v in self._online if v.kind in kinds and v.kind != "precommitted-read"]

    def identities(self, *kinds: str) -> set[Identity]:
        """Return whose violations of some kinds the tracker named."""
        return {v.identity for v in self.said(*kinds) if v.identity is not None}

    def key(self, partition: int | None) -> str:
        """Return the key of a partition in the history."""
        return f"{self._topic}-{partition}"

    def places(self, *kinds: str) -> set[tuple[str, int]]:
        """Return where the tracker found some kinds."""
        return {(self.key(v.partition), v.offset) for v in self.said(*kinds) if v.offset is not None}

    def cases(self, *names: str) -> Iterable[Mapping[str, Any]]:
        """Return what the checker said of the history."""
        return (case for name in names for case in self._offline.get(name, ()))

    def untold(self) -> set[tuple[Identity, int]]:
        """Return which probes of transactions stand where, untold: all but what a read_committed consumer was given.

        A history has no read_uncommitted consumers of their topic, and offsets of committed writes alone.
        """
        kept = promises(self._facts)
        polls = [x for x in self._facts if isinstance(x, f.Polled) and x.transaction_id is not None]
        acked = {(_identity(x), x.offset) for x in self._facts if isinstance(x, f.Acked) and x.offset is not None}
        told = {(_identity(x), x.offset) for x in polls if x.isolation == "read_committed"}
        placed = acked | {(_identity(x), x.offset) for x in polls}
        return placed - told - {(who, offset) for who, offset in acked if who in kept}

    def was_cut(self, place: str) -> bool:
        """Whether something went from a log but by retention."""
        return any(self.key(partition) == place for topic, partition in self._truth.removed if topic == self._topic)

    def was_sent_after(self, over: Identity, to: Identity) -> bool:
        """Whether no consumer was given ``to`` again after ``over`` was sent."""
        sent, given = self._sent_and_given
        return over in sent and to in given and given[to] < sent[over]

    @cached_property
    def _sent_and_given(self) -> tuple[Mapping[Identity, int], Mapping[Identity, int]]:
        sent = {_identity(fact): at for at, fact in enumerate(self._facts) if isinstance(fact, f.Sent)}
        polls = (one for one in enumerate(self._facts) if isinstance(one[1], f.Polled))
        return sent, {_identity(fact): at for at, fact in polls if not fact.consumer.startswith("reread")}

    def moved(self, identity: Identity) -> bool:
        """Whether a consumer was put back below a probe that it had been given, and was given it again."""
        return identity in self._given_again

    @cached_property
    def _given_again(self) -> set[Identity]:
        given: dict[tuple[str, int], int] = defaultdict(lambda: -1)
        below: dict[tuple[str, int], int] = {}
        found = set[Identity]()
        for fact in self._facts:
            if isinstance(fact, f.Positioned):
                where = (fact.consumer, fact.partition)
                below[where] = max(given[where], below.get(where, -1))
                given[where] = fact.offset - 1
            elif isinstance(fact, f.Polled):
                where = (fact.consumer, fact.partition)
                found |= {_identity(fact)} if given[where] < fact.offset <= below.get(where, -1) else set()
                given[where] = max(given[where], fact.offset)
        return found

    def forgotten(self, identity: Identity) -> bool:
        """Whether a probe had expired before it was read: a later leader that had deleted less gave it."""
        return self._forgotten(key(identity))

    def at_once(self) -> set[Identity]:
        """Return who was sent while an earlier send to the same partition was under way."""
        under_way: dict[Identity, set[Identity]] = defaultdict(set)
        found = set[Identity]()
        for fact in self._facts:
            if isinstance(fact, f.Sent | f.Acked | f.Failed | f.Indeterminate):
                who = _identity(fact)
                others = under_way[who._replace(sequence=0)]
                others.discard(who)
                if isinstance(fact, f.Sent):
                    found |= {who} if others else set()
                    others.add(who)
        return found

    def unrecorded(self, identity: Identity) -> bool:
        """Whether no sending of a probe is in the ledger."""
        return not self._truth.was_sent(key(identity))


def contradictions(
    world: World, rows: WindowRows, left_out: Iterable[str], forgotten: Callable[[bytes], bool]
) -> Iterator[str]:
    """Yield the rules that the checker's and the tracker's words break, with the first case of each."""
    state = world.remembered()
    harms = {one.harm for one in world.plan.strikes}
    if state is None or any("clock" in harm or harm == "other-cluster" for harm in harms):
        return
    known = state.topics  # without a mode that was never on
    for topic in sorted({*world.topics()} & {*known} - {*left_out}):
        life = ExportedLife(world, rows, known[topic], forgotten)
        for rule in RULES:
            try:
                rule(life)
            except agreement.ContradictionError as error:
                yield f"{rule.__name__} of {topic}: {' '.join(str(error).split())[:600]}"


def _of(topic: str, rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    return [row for row in rows if row["topic"] == topic]


def _named(row: Mapping[str, Any]) -> Identity:
    return Identity(*(row[name] for name in Identity._fields))


def _identity(fact: f.Sent | f.Acked | f.Failed | f.Indeterminate | f.Polled) -> Identity:
    return Identity(fact.producer_id, fact.generation, fact.partition, fact.sequence)
