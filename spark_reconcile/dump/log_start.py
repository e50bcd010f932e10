"""Where logs begin: a listed start is a question, and a fetch right below it the answer.

A broker that lists a start that is too high serves what it says is gone. So what is below a start is gone only where a
fetch there is refused; else the log begins at the lowest offset that is served.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import structlog

if TYPE_CHECKING:
    from canary.wire.replicas import PartitionReplicas

log = structlog.get_logger(__name__)

Place = tuple[str, int]
"""Topic and partition."""
_REFUSED: Final = "OFFSET_OUT_OF_RANGE"


def verified(config: Mapping[str, Any], listed: Mapping[Place, int]) -> dict[Place, int]:
    """Return the first offsets of logs that are ``listed`` to begin there; as listed where no fetch is answered.

    Needs the right to Read the topics, as a dump does; ``config`` are librdkafka's properties.
    """
    found = dict(listed)
    topics = {topic for (topic, _), start in listed.items() if start > 0}
    if not topics:
        return found
    from canary.wire.client import opened  # noqa: PLC0415  # slow, and only for logs that begin above 0
    from canary.wire.errors import WireError  # noqa: PLC0415  # the same
    from canary.wire.replicas import described  # noqa: PLC0415  # the same

    try:
        with opened(config) as admin:
            for name, answer in described(admin, topics).items():
                for one in () if isinstance(answer, WireError) else answer:
                    if one.leader is not None and found.get((name, one.partition), 0) > 0:
                        found[name, one.partition] = _begins(admin, one, found[name, one.partition])
    except WireError as error:
        log.warning("dump_starts_not_verified", topics=sorted(topics), reason=str(error))
    return found


def _begins(admin: Any, of: "PartitionReplicas", listed: int) -> int:
    from canary.wire.errors import WireError  # noqa: PLC0415  # as above
    from canary.wire.fetch import fetch  # noqa: PLC0415  # the same

    def serves(offset: int) -> bool:
        leader = of.leader if of.leader is not None else -1
        epoch = of.leader_epoch
        try:
            fetch(admin, of.topic, of.partition, leader, offset, leader_epoch=epoch, max_bytes=1, wait_ms=0)
        except WireError as error:
            if error.code != _REFUSED:
                raise
            return False
        return True

    try:
        start = lowest(serves, listed)
    except WireError as error:
        log.warning("dump_start_not_verified", topic=of.topic, partition=of.partition, reason=str(error))
        return listed
    if start < listed:
        log.warning("dump_start_is_wrong", topic=of.topic, partition=of.partition, listed=listed, start=start)
    return start


def lowest(serves: Callable[[int], bool], listed: int) -> int:
    """Return the lowest offset that is served, ``listed`` (above 0) if the one below it is not.

    >>> lowest(lambda offset: offset >= 70, 100), lowest(lambda offset: offset >= 100, 100), lowest(lambda _: True, 100)
    (70, 100, 0)
    """
    return bisect_left(range(listed), True, key=serves) if serves(listed - 1) else listed
