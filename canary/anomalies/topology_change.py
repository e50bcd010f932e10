"""One change in the timeline of the cluster's topology."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Self

Subject = Literal["partition", "broker", "controller", "topic", "cluster"]


@dataclass(frozen=True, slots=True)
class TopologyChange:
    """A state that holds from ``at_ns`` on (ns since the epoch), until the next change at the same place.

    The place is (``subject``, ``topic``, ``number``): a partition of a topic, a broker's id; 0 for the controller, for
    a topic as a whole and for the cluster. A partition has ``leader`` (-1: none), ``replicas`` and ``isr`` ("1,2,3"),
    and ``leader_epoch`` where that is known; the controller has ``leader``. ``detail`` is a broker's address and rack
    ("" while it is not there), "gone" of a topic, "silent" of the cluster while no broker answers the canary, and of a
    partition the offset at which the leader epoch begins, if known.
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
    """None while it is unknown: of topics of which neither offsets nor epochs are watched, and after an election."""

    def retimed(self, clock: Callable[[int], int]) -> Self:
        """Return it with its time by another clock: it returns what it said then."""
        return replace(self, at_ns=clock(self.at_ns))
