"""Finds the last snapshot, and the facts after it, in the files that a dead process left."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import structlog

from canary.facts import Fact
from storage.ledger.files import DISK, Disk
from storage.ledger.segment import Segment, read_header, scan_segment, segment_number, segment_paths

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Recovery:
    """The content of a recovered ledger.

    ``state`` is the last snapshot (None: there never was one, or it is lost, see ``damage``), ``facts`` the batches
    appended after it, in order. ``torn``: what was dropped because it was not written to its end (normal after a kill).
    ``damage``: where whole data went bad (never normal); ``facts`` end before it. ``spoiled``: later snapshots that are
    bad; the one before them and the facts since replace them.
    """

    state: bytes | None
    facts: Iterator[list[Fact]]
    torn: str | None
    damage: str | None
    spoiled: str | None = None


@dataclass(frozen=True, slots=True)
class Chain:
    """The segments that count, oldest first, from the last snapshot on, and the stray files to set aside."""

    segments: list[Segment]
    strays: list[Path]
    torn: str | None
    damage: str | None


def find_chain(directory: Path, disk: Disk = DISK) -> Chain:
    """Read the directory backwards from its last segment to the last snapshot that is intact.

    Raises:
        LedgerError: a file cannot be read at all.
    """
    by_number = {segment_number(path): path for path in segment_paths(directory, disk)}
    chain: list[Segment] = []
    missing = None
    number, counted = max(by_number, default=0), None
    while number:
        segment = scan_segment(by_number[number], counted, disk)
        chain.insert(0, segment)
        if segment.has_snapshot:
            break
        if segment.header is None:  # unreadable: its predecessor by number is the best guess
            number, counted = max((n for n in by_number if n < number), default=0), None
            continue
        number, counted = segment.header.previous, segment.header.previous_bytes
        if number not in by_number and (number or segment.spoiled):
            missing = f"segment {number}, which holds the state before {segment.path.name}, is missing"
            missing = f"{segment.spoiled}, and {missing}" if segment.spoiled else missing
            break
    if missing is not None:
        return Chain([], list(by_number.values()), None, missing)
    first = chain[0].number if chain else 0
    members = {segment.number for segment in chain}
    strays = [path for number, path in by_number.items() if number > first and number not in members]
    for position, segment in enumerate(chain):
        if segment.damage is not None:
            later = [after.path for after in chain[position + 1 :]]
            return Chain(chain[: position + 1], strays + later, None, segment.damage)
    return Chain(chain, strays, chain[-1].torn if chain else None, None)


def repair(chain: Chain, disk: Disk) -> None:
    """Set the bad files aside, cut the last segment after its last whole frame, and make it durable.

    In this order a crash in between is harmless: the next recovery finds the same damage again. The last segment may
    end with a frame that a killed process wrote and did not fsync, or whose fsync failed: a power cut must not take it
    any more, and after a failed fsync only writing it again makes sure of that. A full disk leaves no room to.
    """
    for path in reversed(chain.strays):
        disk.rename(path, path.with_name(path.name + ".damaged"))
    if not chain.segments:
        return
    last = chain.segments[-1]
    if last.damage is not None:
        aside = last.path.with_name(last.path.name + ".damaged")
        disk.unlink(aside, missing_ok=True)
        try:
            disk.link(last.path, aside)
        except OSError:  # a file system without hard links
            disk.close(disk.replace(aside, disk.read(last.path)))
        if last.header is None:
            disk.unlink(last.path)
            disk.sync_directory(last.path.parent)
            return
    try:
        disk.close(disk.replace(last.path, disk.read(last.path, 0, last.good_bytes)))
    except OSError:
        if last.damage is not None:
            raise
        descriptor = disk.open(last.path, os.O_RDWR)
        try:
            disk.truncate(descriptor, last.good_bytes)
            disk.fsync(descriptor)
        finally:
            disk.close(descriptor)
    disk.sync_directory(last.path.parent)


def recovery_of(chain: Chain) -> Recovery:
    """Return the chain's snapshot and facts; the facts are read lazily."""
    state = chain.segments[0].snapshot() if chain.segments else None

    def facts() -> Iterator[list[Fact]]:
        for segment in chain.segments:
            yield from segment.batches()

    if chain.torn is not None:
        _log.warning("ledger_torn_tail", what=chain.torn)
    if chain.damage is not None:
        _log.error("ledger_damaged", what=chain.damage, remedy="the files are kept as *.damaged; check the disk")
    spoiled = "; ".join(segment.spoiled for segment in chain.segments if segment.spoiled) or None
    if spoiled is not None:
        _log.error("ledger_snapshot_damaged", what=spoiled, remedy="nothing is lost; check the disk")
    return Recovery(state, facts(), chain.torn, chain.damage, spoiled)


def ledger_id_of(directory: Path, disk: Disk = DISK) -> bytes | None:
    """Return the ledger id that the segments in ``directory`` carry; None if there is no readable one."""
    for path in reversed(segment_paths(directory, disk)):
        header = read_header(path, disk)
        if header is not None:
            return header.ledger_id
    return None
