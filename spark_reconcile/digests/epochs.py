"""Where an election has cut a log, by its leader epochs (KIP-101, KIP-320).

A tree is kept with the leader epoch that the partition had when everything in the tree had been read. Where that epoch
ends in the log of now below the end of the tree, an election has cut the log there: whatever stands behind it was
written under a later epoch. So of what differs it is known by the offset which records are other ones, and not only
by their leaves. Nothing is said to differ on the word of epochs alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import structlog

from spark_reconcile.digests.reading import Place

if TYPE_CHECKING:
    from canary.wire.epochs import Led

log = structlog.get_logger(__name__)


def epochs(config: Mapping[str, Any], topics: Iterable[str]) -> dict[Place, int]:
    """Return the leader epoch of each partition that has a leader; none if the cluster does not tell."""
    from canary.wire.client import opened  # noqa: PLC0415  # slow, and only used here
    from canary.wire.errors import WireError  # noqa: PLC0415

    try:
        with opened(config) as admin:
            return {place: led.epoch for place, led in _leaders(admin, topics).items()}
    except WireError as error:
        log.info("leader_epochs_unknown", reason=str(error))
        return {}


def cuts(config: Mapping[str, Any], known: Mapping[Place, tuple[int, int]]) -> dict[Place, int]:
    """Return where logs were cut of which the leader epoch and the end were ``known``; none if that is not told."""
    if not known:
        return {}
    from canary.wire.client import opened  # noqa: PLC0415  # slow, and only used here
    from canary.wire.epochs import EpochEnd, ends  # noqa: PLC0415
    from canary.wire.errors import WireError  # noqa: PLC0415

    try:
        with opened(config) as admin:
            leaders = _leaders(admin, {topic for topic, _ in known})
            told = ends(admin, {place: (led, known[place][0]) for place, led in leaders.items() if place in known})
    except WireError as error:
        log.info("leader_epochs_unknown", reason=str(error))
        return {}
    return {
        place: one.end_offset
        for place, one in told.items()
        if isinstance(one, EpochEnd) and one.end_offset < known[place][1]
    }


def _leaders(admin: Any, topics: Iterable[str]) -> dict[Place, Led]:
    from canary.wire.epochs import Led  # noqa: PLC0415  # slow, and only used here
    from canary.wire.errors import WireError  # noqa: PLC0415
    from canary.wire.replicas import described  # noqa: PLC0415

    return {
        (one.topic, one.partition): Led(one.leader, one.leader_epoch)
        for partitions in described(admin, topics).values()
        if not isinstance(partitions, WireError)
        for one in partitions
        if one.leader is not None and one.leader_epoch >= 0
    }
