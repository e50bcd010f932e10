"""What the topology's timeline is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Subject = Literal["partition", "broker", "controller", "topic"]


@dataclass(frozen=True, slots=True)
class TopologyChange:
    """From ``at_ns`` on (ns since the epoch) something is so, until the next change with the same place.

    The place is (``subject``, ``topic``, ``number``): a partition of a topic, a broker's id, 0 for the controller and
    for a topic as a whole. A partition has ``leader`` (-1: none), ``replicas`` and ``isr`` ("1,2,3"), and
    ``leader_epoch`` where that is known; the controller has ``leader``. ``detail`` is a broker's address and rack (""
    while it is not there), and "gone" of a topic.
    """

    at_ns: int
    subject: Subject
    topic: str
    number: int
    leader: int | None = None
    replicas: str = ""
    isr: str = ""
    detail: str = ""
    leader_epoch: int | None = None
    """None where nobody has told it (yet): of topics whose offsets are not watched, and just after an election."""
