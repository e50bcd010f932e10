"""Partitions whose last stable offset stands still below the high watermark: a transaction is open there for too long.

The last stable offset is the first offset of the oldest open transaction. A coordinator aborts one after its timeout,
of which the cluster allows ``transaction.max.timeout.ms`` at most. So if that offset does not move for longer, nobody
will ever end the transaction, or its coordinator does not work (KIP-664).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from canary.anomalies.absence import Absences
from canary.anomalies.groups.sample import Log, Place
from canary.anomalies.policy import is_due
from canary.anomalies.violation import Violation

_PAUSE_NS: Final = 60 * 10**9


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose transaction it is.

    ``known``: its coordinator has this very transaction; False: it has another one, or none; None: not known, and
    ``unknown`` says why. ``started_ns`` is when it began, by the coordinator, or when its last record was made, by its
    producer.
    """

    producer_id: int | None = None
    producer_epoch: int | None = None
    transactional_id: str | None = None
    coordinator: int | None = None
    state: str | None = None
    started_ns: int | None = None
    timeout_ms: int | None = None
    known: bool | None = None
    unknown: str | None = None


@dataclass(frozen=True, slots=True)
class HangingView:
    """A transaction that hangs; ``since_ns`` is since when the last stable offset stands still, as far as was seen."""

    topic: str
    partition: int
    start_offset: int
    high_watermark: int
    since_ns: int
    holder: Holder
    command: str


@dataclass(slots=True)
class _Still:
    offset: int
    since_ns: int
    seen_ns: int
    said_ns: int = 0


class Stable:
    """What is remembered of each partition that has an open transaction.

    ``bootstrap`` is the address for the command that ends one.
    """

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._still: dict[Place, _Still] = {}
        self._absences = Absences()

    def fold(
        self, logs: Mapping[Place, Log], topics: Collection[str], at_ns: int, limit_s: float
    ) -> tuple[list[Place], list[Violation]]:
        """Take the logs that a round was told of; return where a transaction hangs, and conditions that ended.

        A log that was not told of keeps its state while its topic is one of ``topics``, which exist, twice in a row;
        time in which nothing is told counts for nothing.
        """
        names = self._absences.gone({topic for topic, _ in self._still}, topics)
        gone = {place: still for place, still in self._still.items() if place[0] in names}
        over = [self._ended(place, still, at_ns) for place, still in gone.items() if still.said_ns]
        for place in gone:
            del self._still[place]
        for place, log in logs.items():
            if log.stable is None:
                continue
            before = self._still.get(place)
            if before is not None and (log.stable != before.offset or log.stable >= log.end):
                if before.said_ns:
                    over.append(self._ended(place, before, at_ns))
                del self._still[place]
                before = None
            if log.stable >= log.end:
                continue
            if before is None:
                before = self._still[place] = _Still(log.stable, at_ns, at_ns)
            elif at_ns - before.seen_ns > _PAUSE_NS:
                before.since_ns += at_ns - before.seen_ns
            before.seen_ns = at_ns
        held = [place for place in logs if (one := self._still.get(place)) and (at_ns - one.since_ns) / 1e9 > limit_s]
        return sorted(held), over

    def shown(self, place: Place, log: Log, holder: Holder) -> HangingView:
        """Return a transaction that hangs as it is shown."""
        still = self._still[place]
        return HangingView(*place, still.offset, log.end, still.since_ns, holder, self._command(place, still.offset))

    def said(self, view: HangingView, at_ns: int, *, overdue: bool) -> Violation | None:
        """Return what is to be said of it now: at once, and from time to time while it lasts.

        ``overdue``: it has lasted longer than the cluster lets any transaction last.
        """
        place, still = (view.topic, view.partition), self._still[view.topic, view.partition]
        if still.said_ns and not is_due(still.said_ns, at_ns):
            return None
        still.said_ns = at_ns
        holder, minutes = view.holder, (at_ns - view.since_ns) / 60e9
        who = f"of producer {holder.producer_id}, epoch {holder.producer_epoch}"
        if holder.transactional_id is not None:
            who += f", transactional id {holder.transactional_id} (coordinator: broker {holder.coordinator})"
        elif holder.producer_id is None:
            who = "of a producer that is not known"
        fate = {
            True: "its coordinator knows of it" + (", and does not end it" if overdue else ", and will end it in time"),
            False: "its coordinator does not know of it: nobody will ever end it",
            None: f"whether a coordinator will end it is unknown ({holder.unknown})",
        }[holder.known]
        summary = (
            f"a transaction {who} has been open in {view.topic}-{view.partition} at offset {view.start_offset} for "
            f"{minutes:.0f} min: {fate}. read_committed consumers are given nothing from there on. "
            f"It is ended by: {view.command}"
        )
        evidence: dict[str, Any] = {
            "since_ns": view.since_ns,
            "high_watermark": view.high_watermark,
            "command": view.command,
            "producer_id": holder.producer_id,
            "producer_epoch": holder.producer_epoch,
            "transactional_id": holder.transactional_id,
            "coordinator": holder.coordinator,
            "coordinator_state": holder.state,
            "started_ns": holder.started_ns,
            "timeout_ms": holder.timeout_ms,
            "unknown": holder.unknown,
        }
        return self._violation(place, view.start_offset, at_ns, summary, evidence)

    def _command(self, place: Place, offset: int) -> str:
        topic, partition = place
        return (
            f"kafka-transactions.sh --bootstrap-server {self._bootstrap} abort --topic {topic} "
            f"--partition {partition} --start-offset {offset}"
        )

    def reported(self, at_ns: int) -> list[Violation]:
        """Return the conditions that hold and were reported; their summaries are not those of then."""
        return [self._ended(place, still, at_ns) for place, still in self._still.items() if still.said_ns]

    def _ended(self, place: Place, still: _Still, at_ns: int) -> Violation:
        return self._violation(place, still.offset, at_ns, "ended", {})

    @staticmethod
    def _violation(place: Place, offset: int, at_ns: int, summary: str, evidence: Mapping[str, Any]) -> Violation:
        return Violation(
            kind="hanging-transaction",
            severity="warning",
            topic=place[0],
            partition=place[1],
            offset=offset,
            at_ns=at_ns,
            by="watch",
            summary=summary,
            evidence=evidence,
        )
