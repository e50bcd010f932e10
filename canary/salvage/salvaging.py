"""One partition of a log directory, from end to end: what is gone from the cluster, of what outcome, and its counts.

The directory's log is read some times over, so that nothing is kept in memory but what is open: the headers of all
batches (where does it diverge); from there on everything, with its CRC (damage, transactions, keys); then the cluster
from there on (newer records of these keys); and a last time, to count and to write.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from canary.errors import UserError
from canary.salvage.collisions import Keys
from canary.salvage.counts import Counts, Found
from canary.salvage.directory import Replica
from canary.salvage.divergence import Fate, spans
from canary.salvage.outcomes import Outcomes
from canary.salvage.salvaged import Salvaged, Writer, writing
from canary.salvage.segments import Damage, scan, segments
from canary.salvage.verifying import ClusterLog, Verified, verified
from canary.wire.errors import RecordsError
from canary.wire.records import Batch, Record

Show = Callable[[str, int, int], None]
"""Of a step: what, done, in all."""
_NO_END: Final = 1 << 62
_LONG: Final = 4
"""Of so many segments the reading is shown, segment by segment."""
_MANY: Final = 100_000
"""Of more offsets in the cluster."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for.

    Attributes:
        undecided: records of transactions of whose end the directory does not tell, too.
        expired: records below the start of the cluster's log, too.
        collisions: look for newer records of the same keys.
        verify: compare what both have, record by record.
    """

    undecided: bool = False
    expired: bool = False
    collisions: bool = True
    verify: bool = False


@dataclass(slots=True)
class _Survey:
    """What the headers of the directory's log tell."""

    starts: list[tuple[int, int]] = field(default_factory=list)
    end: int = 0
    lowest: int | None = None

    def take(self, batch: Batch) -> None:
        if not self.starts or self.starts[-1][0] != batch.leader_epoch:
            self.starts.append((batch.leader_epoch, batch.base_offset))
        self.end = batch.last_offset + 1

    def gone_from(self, offset: int) -> None:
        self.lowest = offset if self.lowest is None else min(self.lowest, offset)


class Partition:
    """A partition of the directory beside the cluster's log of it."""

    def __init__(self, replica: Replica, log: ClusterLog, wanted: Wanted, show: Show) -> None:
        self._replica = replica
        self._files = segments(replica.path)
        self._log = log
        self._held = log.holdings
        self._wanted = wanted
        self._show = show
        self._verified = Verified()
        self._outcomes = Outcomes()
        self._markers_since: dict[int, tuple[str, int]] = {}
        self._bad: list[Damage] = []
        self._diverged = _NO_END
        """The lowest offset that is gone by its epoch."""

    def salvage(self, out: Path | None) -> Found:
        """Count what is there, and write what is gone to a file in ``out``; None: write nothing.

        Raises:
            UserError: a file cannot be written.
            WireError: the cluster gives no answer.
        """
        survey = self._survey()
        if self._wanted.verify:
            self._verified = verified(self._read("compared with the cluster", 0), self._log)
            if self._verified.missing:
                survey.gone_from(self._verified.missing[0][0])
        with _on_disk(), closing(Keys()) as keys:
            if survey.lowest is not None:
                self._look(survey.lowest, keys)
                self._ask(survey.lowest, keys)
            name = f"{self._replica.name}.parquet"
            opened = nullcontext() if out is None or survey.lowest is None else writing(out / name)
            with opened as writer:
                counts = self._count(survey.lowest, keys, writer)
        pieces = [piece for span in spans(survey.starts, survey.end) for piece in self._held.divided(span)]
        undecided = list(self._outcomes.undecided())
        file = None if writer is None else name
        found = Found(self._replica, self._held, counts, pieces, self._bad, undecided, self._markers_since, file)
        found.notes.extend(self._notes(survey))
        return found

    def _read(self, what: str, checked_from: int | None) -> Iterator[tuple[Path, Batch | Damage]]:
        """Read the directory's log, and show how far: in segments."""
        done = {path: number for number, path in enumerate(self._files)}
        last: Path | None = None
        for path, one in scan(self._files, checked_from=checked_from):
            if path is not last and len(done) >= _LONG:
                self._show(f"{self._replica.name}: {what}", done[path], len(done))
                last = path
            yield path, one

    def _fates(self, batch: Batch) -> set[Fate]:
        ends = (batch.base_offset, batch.last_offset)
        return {self._held.fate(offset, batch.leader_epoch) for offset in ends}

    def _survey(self) -> _Survey:
        survey = _Survey()
        for _, one in self._read("headers", None):
            if isinstance(one, Damage):
                self._bad.append(one)
                continue
            survey.take(one)
            fates = self._fates(one)
            if "gone" in fates:
                self._diverged = min(self._diverged, one.base_offset if self._held.spans else 0)
            if "gone" in fates or ("expired" in fates and self._wanted.expired):
                survey.gone_from(one.base_offset)
        return survey

    def _look(self, lowest: int, keys: Keys) -> None:
        """Fold the transactions, and take the keys of what may be gone."""
        end = 0
        for _, one in self._read("records", lowest):
            if isinstance(one, Damage):
                self._outcomes.unreadable(one.offset)
                continue
            end = one.last_offset + 1
            try:
                if one.control:
                    if (kind := one.marker()) is not None:
                        self._outcomes.marker(one.producer_id, one.base_offset, committed=kind == "commit")
                    continue
                if one.transactional:
                    self._outcomes.data(one.producer_id, one.producer_epoch, one.base_offset)
                if self._wanted.collisions and end > lowest:
                    for record in one.records():
                        if record.key is not None and self._is_gone(record.offset, one.leader_epoch):
                            keys.add(record.key)
            except RecordsError:
                self._outcomes.unreadable(one.base_offset)
        self._outcomes.unreadable(end)

    def _ask(self, lowest: int, keys: Keys) -> None:
        """Look in the cluster's log, from where it diverges on, for newer records of the keys, and for markers."""
        awaited = {one.producer_id for one in self._outcomes.undecided()}
        if not self._wanted.collisions or (keys.empty and not awaited):
            return
        start = min(lowest, self._held.end)
        for batch in self._log.batches(start):
            if batch.control:
                if (kind := batch.marker()) is not None:
                    keys.ended(batch.producer_id, committed=kind == "commit")
                    if batch.producer_id in awaited and batch.base_offset >= self._diverged:
                        self._markers_since.setdefault(batch.producer_id, (kind, batch.base_offset))
            elif not keys.empty:
                transaction_of = batch.producer_id if batch.transactional else None
                for record in batch.records():
                    if record.key is not None:
                        keys.written(record.key, record.offset, transaction_of)
            if self._held.end - start > _MANY:
                self._show(
                    f"{self._replica.name}: newer records", batch.last_offset + 1 - start, self._held.end - start
                )

    def _count(self, lowest: int | None, keys: Keys, writer: Writer | None) -> Counts:
        counts = Counts(collisions=0 if self._wanted.collisions else None)
        if self._wanted.verify:
            found = self._verified
            counts.missing, counts.changed, counts.unverified = 0, found.changed, found.unverified
        self._bad.clear()
        for path, one in self._read("written", 0 if self._wanted.verify else lowest):
            if isinstance(one, Damage):
                self._bad.append(one)
                continue
            try:
                self._batch(one, counts, keys, writer)
            except RecordsError:
                size = one.size
                self._bad.append(Damage(path.name, one.position, size, "no batch", one.base_offset))
        return counts

    def _batch(self, batch: Batch, counts: Counts, keys: Keys, writer: Writer | None) -> None:
        if batch.control:
            counts.markers += 1
            return
        if self._fates(batch) == {"held"} and not self._verified.misses(batch.base_offset, batch.last_offset):
            counts.batches += 1
            counts.records += batch.count
            counts.held += batch.count
            return
        if self._fates(batch) == {"expired"} and not self._wanted.expired:
            counts.batches += 1
            counts.records += batch.count
            counts.expired += batch.count
            return
        records = list(batch.records())  # all of them, or none: it may be no batch
        counts.batches += 1
        counts.records += len(records)
        for record in records:
            self._record(record, batch, counts, keys, writer)

    def _is_gone(self, offset: int, epoch: int) -> bool:
        fate = self._held.fate(offset, epoch)
        missing = fate == "held" and self._verified.misses(offset, offset)
        return fate == "gone" or missing or (fate == "expired" and self._wanted.expired)

    def _record(self, record: Record, batch: Batch, counts: Counts, keys: Keys, writer: Writer | None) -> None:
        if not self._is_gone(record.offset, batch.leader_epoch):
            expired = self._held.fate(record.offset, batch.leader_epoch) == "expired"
            counts.expired += expired
            counts.held += not expired
            return
        outcome = self._outcomes.of(batch.producer_id, record.offset) if batch.transactional else "committed"
        setattr(counts, outcome, getattr(counts, outcome) + 1)
        if counts.missing is not None and self._verified.misses(record.offset, record.offset):
            counts.missing += 1
        if outcome == "aborted" or (outcome == "undecided" and not self._wanted.undecided):
            return
        collision = None
        if counts.collisions is not None and record.key is not None:
            collision = keys.has_newer(record.key, min(record.offset + 1, self._diverged))
            counts.collisions += collision
        counts.salvaged += 1
        if writer is not None:
            writer.write(
                Salvaged(
                    self._replica.topic,
                    self._replica.partition,
                    record.offset,
                    record.timestamp_ms,
                    batch.timestamp_type,
                    batch.leader_epoch,
                    record.key,
                    record.value,
                    record.headers,
                    batch.producer_id,
                    batch.producer_epoch,
                    batch.transactional,
                    outcome,
                    collision,
                )
            )

    def _notes(self, survey: _Survey) -> Iterator[str]:
        checkpoint = spans(self._replica.epochs, survey.end)
        first = survey.starts[0][1] if survey.starts else 0
        told = [span for span in checkpoint if span.end > first]
        if told and [span.epoch for span in told] != [epoch for epoch, _ in survey.starts]:
            yield "leader-epoch-checkpoint names other epochs than the batches; the batches were taken"
        if not self._replica.topic_id:
            yield "the directory does not tell the topic's id: that it is the same topic was not checked"


@contextmanager
def _on_disk() -> Iterator[None]:
    """Say what is wrong if there is no room for keys.

    Raises:
        UserError: so it is.
    """
    try:
        yield
    except sqlite3.Error as error:
        remedy = "make room where SQLITE_TMPDIR leads, or /var/tmp, or salvage with --no-collisions"
        raise UserError(f"the keys of what is gone do not fit on the temporary disk: {error}; {remedy}") from error
