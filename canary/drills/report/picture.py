"""The picture of a log around what is gone: offset by offset what was promised, what is there, and what was said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from canary.drills.rig.direct import Place
from canary.drills.rig.performance import Played
from canary.probe.identity import Identity

NEIGHBOURS: Final = 2
MOST: Final = 30
"""So many offsets are shown of a log; what is between is left out."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A word and how it is marked: ok, gone, bad or nothing."""

    words: str = ""
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """An offset of a log: what was acknowledged there, what is there now, and the kinds that the canary named there.

    One without an ``offset`` stands for those that are left out.
    """

    offset: str = ""
    promised: Cell = Cell()
    there: Cell = Cell()
    kinds: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Picture:
    """The picture of the log of a partition, ``log``."""

    log: str
    columns: tuple[Column, ...]

    @property
    def kinds(self) -> list[str]:
        """All that the canary named there."""
        return sorted(frozenset().union(*(one.kinds for one in self.columns)))


def pictures(played: Played) -> tuple[Picture, ...]:
    """Return a picture of each log of the probe topics in which something is not as it was promised, or was named."""
    known = {place.topic for place in (*played.reading.promised, *played.reading.there)}
    concerned = {place for one in played.findings for place in one.records}.union(played.gone, *played.places.values())
    logs = sorted({(place.topic, place.partition) for place in concerned if place.topic in known})
    return tuple(_picture(played, log, [place.offset for place in concerned if place[:2] == log]) for log in logs)


def _picture(played: Played, log: tuple[str, int], concerned: Sequence[int]) -> Picture:
    topic, partition = log
    columns: list[Column] = []
    before = None
    for offset in shown(concerned):
        if before is not None and offset != before + 1:
            columns.append(Column())
        columns.append(_column(played, Place(topic, partition, offset)))
        before = offset
    return Picture(f"{topic}-{partition}", tuple(columns))


def shown(concerned: Iterable[int]) -> list[int]:
    """Return the offsets to show: those that are concerned and their neighbours; of many the first and the last."""
    near = {at for one in concerned for at in range(max(0, one - NEIGHBOURS), one + NEIGHBOURS + 1)}
    ordered = sorted(near)
    return ordered if len(ordered) <= MOST else ordered[: MOST * 2 // 3] + ordered[-MOST // 3 :]


def _column(played: Played, place: Place) -> Column:
    promised = played.reading.promised.get(place, ())
    now = played.reading.there.get(place)
    lost = [one for one in promised if one != now]
    made = any(place in places for places in played.places.values())
    if place in played.reading.there:
        there = Cell("no probe" if now is None else name(now), "bad" if made or lost else "ok")
    else:
        there = Cell("nothing", "nothing" if lost else "")
    return Column(
        f"{place.offset}",
        Cell(", ".join(map(name, lost or promised)) or "-", "gone" if lost else "ok" if promised else ""),
        there,
        frozenset(one.kind for one in played.findings if place in one.records),
    )


def name(identity: Identity) -> str:
    """Return a probe's short name: generation and sequence."""
    return f"{identity.generation}:{identity.sequence}"
