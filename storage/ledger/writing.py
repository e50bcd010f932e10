"""The ledger that a runner appends to."""

import itertools
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Self

import structlog

from canary.facts import Facts
from canary.threads import system
from storage.ledger.codec import encode_facts
from storage.ledger.errors import LedgerError, LedgerLockedError
from storage.ledger.files import DISK, Disk
from storage.ledger.framing import FACTS, SNAPSHOT, Header, encode_frame
from storage.ledger.recovery import Recovery, find_chain, ledger_id_of, recovery_of, repair
from storage.ledger.segment import begins_with_snapshot, read_segment, segment_path, segment_paths

_log = structlog.get_logger(__name__)
_ANY_SEGMENT = re.compile(r"segment-(\d{10})\.ledger.*")
_LEFTOVER = re.compile(r"\.segment-.*\.tmp")


class Ledger:
    """An append-only record of facts in one directory, which one process holds. Not for several threads at once.

    Call ``recover`` before the first ``append``. ``errors`` counts failed writes and fsyncs, also those after which a
    new segment could be written, and damage that ``recover`` found.

    Args:
        directory: one for each (runner, cluster), on a local disk; made if missing.
        segment_bytes: size from which ``due`` asks for a seal.
        segment_age_s: age in s from which ``due`` asks for a seal.
        disk: the system calls; tests give others.
        monotonic: clock for the age, in s.

    Raises:
        LedgerLockedError: another live process holds it.
        LedgerError: the directory cannot be made, read or written.
    """

    def __init__(
        self,
        directory: Path,
        *,
        segment_bytes: int = 64 * 1024 * 1024,
        segment_age_s: float = 45.0,
        disk: Disk = DISK,
        monotonic: Callable[[], float] = system.monotonic,
    ) -> None:
        self.directory = directory
        self.errors = 0
        self._failure: str | None = None
        self._segment_bytes = segment_bytes
        self._segment_age_s = segment_age_s
        self._disk = disk
        self._monotonic = monotonic
        self._lock = _locked(directory, disk)
        try:
            self._ledger_id = ledger_id_of(directory, disk) or system.random_bytes(16)
            names = (path.name for path in disk.entries(directory))
            numbers = [int(match[1]) for name in names if (match := _ANY_SEGMENT.fullmatch(name))]
        except OSError as error:
            disk.close(self._lock)
            raise LedgerError(f"the ledger {directory} cannot be read: {error.strerror}") from error
        self._number = max(numbers, default=0)  # the highest ever used here, also by files set aside
        self._previous = (0, 0)  # number and bytes of the last segment that counts
        self._descriptor: int | None = None
        self._began = 0.0
        self._recovered = not numbers
        self._unneeded: set[Path] = set()

    def __enter__(self) -> Self:
        """Return the ledger itself; leaving closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the ledger."""
        self.close()

    def close(self) -> None:
        """Close the files and release the lock; nothing can be appended any more."""
        if self._descriptor is not None:
            self._close(self._descriptor)
            self._descriptor = None
        if self._lock >= 0:
            self._close(self._lock)
            self._lock = -1

    @property
    def ledger_id(self) -> str:
        """The directory's random id (32 hex digits); a wiped directory gets another one."""
        return self._ledger_id.hex()

    @property
    def due(self) -> bool:
        """Whether the current segment is big or old enough to be sealed."""
        if self._descriptor is None:
            return False
        return self._previous[1] >= self._segment_bytes or self._monotonic() - self._began >= self._segment_age_s

    @property
    def failing(self) -> str | None:
        """The last failure, with the ledger's name; None if a segment was begun since, or no write ever failed."""
        return None if self._failure is None else f"the ledger {self.directory} fails: {self._failure}"

    def recover(self) -> Recovery:
        """Return the last snapshot and the facts after it; repair what a dead process left unfinished.

        Raises:
            LedgerError: the directory cannot be read or repaired.
        """
        try:
            chain = find_chain(self.directory, self._disk)
            for path in self._disk.entries(self.directory):
                if _LEFTOVER.fullmatch(path.name):
                    self._disk.unlink(path)
            repair(chain, self._disk)
        except OSError as error:
            raise LedgerError(f"the ledger {self.directory} cannot be read or repaired: {error.strerror}") from error
        last = chain.segments[-1] if chain.segments else None
        if last is not None and last.header is None:
            last = chain.segments[-2] if len(chain.segments) > 1 else None
        self._previous = (last.number, last.good_bytes) if last is not None else (0, 0)
        self._recovered = True
        recovery = recovery_of(chain)
        self.errors += (recovery.damage or recovery.spoiled) is not None
        return recovery

    def skip(self, number: int) -> None:
        """Give the segments to come numbers above ``number``.

        A ledger that was put back must not give a number again: the probe log takes what a segment of that number
        holds for the one that it has.
        """
        self._number = max(self._number, number)

    def append(self, facts: Facts) -> None:
        """Make ``facts`` durable, in their order.

        Raises:
            LedgerError: they could not be written durably, not even into a new segment (disk full, disk broken). They
                may or may not be recovered; the ledger stays usable, and appending them again is right.
        """
        if not facts:
            return
        frame = encode_frame(FACTS, encode_facts(facts))
        if self._descriptor is not None:
            try:
                self._disk.append(self._descriptor, frame)
            except OSError as error:
                self._failed(error)
                self._abandon()
            else:
                number, size = self._previous
                self._previous = (number, size + len(frame))
                return
        self._begin(frame)

    def seal(self, state: bytes) -> Path | None:
        """Begin a new segment with the snapshot ``state``, which covers everything appended so far.

        Returns the path of the segment that was closed; None if none was being written.

        Raises:
            LedgerError: the snapshot could not be made durable; the old segment is written further, or another one.
        """
        sealed = segment_path(self.directory, self._previous[0]) if self._descriptor is not None else None
        old = self._descriptor
        self._begin(encode_frame(SNAPSHOT, state))
        if old is not None:
            self._close(old)
        self._delete()
        return sealed

    def sealed(self) -> list[Path]:
        """Return the segments that are not written any more, oldest first, also those of earlier processes.

        Raises:
            LedgerError: the directory cannot be read (too many open files, say).
        """
        current = segment_path(self.directory, self._previous[0]) if self._descriptor is not None else None
        try:
            return [path for path in segment_paths(self.directory, self._disk) if path != current]
        except OSError as error:
            self._failed(error)
            raise LedgerError(f"the ledger {self.directory} cannot be read: {error.strerror}") from error

    def drop(self, path: Path) -> None:
        """Delete a sealed segment as soon as two later ones begin with an intact snapshot.

        Two, because if the last snapshot rots, the one before it and the facts since replace it. A damaged segment is
        set aside as ``….damaged``.
        """
        self._unneeded.add(path)
        self._delete()

    def _delete(self) -> None:
        if not self._unneeded:
            return
        try:
            paths = segment_paths(self.directory, self._disk)
            snapshots = (path for path in reversed(paths) if begins_with_snapshot(path, self._disk))
            oldest_kept = next(itertools.islice(snapshots, 1, None), None)
        except OSError as error:  # tried again after the next snapshot
            _log.warning("segments_not_deleted", directory=str(self.directory), error=str(error))
            return
        if oldest_kept is None:
            return
        for path in paths[: paths.index(oldest_kept)]:
            if path not in self._unneeded:
                continue
            try:
                if read_segment(path, self._disk).damage is not None:
                    self._disk.rename(path, path.with_name(path.name + ".damaged"))
                else:
                    self._disk.unlink(path)
            except (OSError, LedgerError) as error:
                _log.warning("segment_not_deleted", segment=path.name, error=str(error))
            else:
                self._unneeded.discard(path)

    def _begin(self, frame: bytes) -> None:
        """Make a new segment that begins with ``frame`` the current one; try twice."""
        if not self._recovered:
            raise LedgerError(f"the ledger {self.directory} holds facts of a former process: recover() them first")
        if self._lock < 0:
            raise LedgerError(f"the ledger {self.directory} is closed")
        gone = True
        for attempt in (1, 2):
            self._number += 1
            path = segment_path(self.directory, self._number)
            header = Header(self._ledger_id, self._number, *self._previous).encode()
            try:
                descriptor = self._disk.replace(path, header + frame)
            except OSError as error:
                self._failed(error)
                gone &= self._disk.discard(path)
                if attempt == 2:
                    if not gone:  # it must not come back as the last segment: facts appended to this one would be lost
                        self._abandon()
                    raise LedgerError(
                        f"the ledger {self.directory} cannot be written: {error.strerror}; free or repair the disk"
                    ) from error
            else:
                self._descriptor, self._failure = descriptor, None
                self._previous = (self._number, len(header) + len(frame))
                self._began = self._monotonic()
                return

    def _failed(self, error: OSError) -> None:
        self.errors += 1
        if error.strerror != self._failure:  # logged once, however often it is tried again
            self._failure = error.strerror
            _log.error("ledger_write_failed", directory=str(self.directory), error=str(error))

    def _close(self, descriptor: int) -> None:
        """Close a file that is not written any more; all of it that counts is durable, even if close() fails."""
        try:
            self._disk.close(descriptor)
        except OSError as error:
            self._failed(error)

    def _abandon(self) -> None:
        """Never write to the current file again, and cut off any part of the failed batch that reached it."""
        if self._descriptor is None:
            return
        number, size = self._previous
        try:
            self._disk.truncate(self._descriptor, size)
        except OSError as error:  # not needed: the next segment's header says how much counts
            _log.info("ledger_not_cut", segment=number, error=str(error))
        self._close(self._descriptor)
        self._descriptor = None


def _locked(directory: Path, disk: Disk) -> int:
    """Make the directory if it is missing; return the descriptor of its lock, which this process then holds."""
    try:
        disk.make_directory(directory)
        lock = disk.open(directory / "lock", os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise LedgerError(
            f"the ledger's directory {directory} cannot be used: {error.strerror}; see ledger.directory"
        ) from error
    try:
        disk.lock(lock)
    except OSError as error:
        disk.close(lock)
        raise LedgerLockedError(
            f"the ledger {directory} is held by another live process; stop it, or set another ledger.directory"
        ) from error
    return lock
