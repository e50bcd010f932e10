"""What is known of all that a runner watches besides its probes."""

from collections.abc import Iterator
from dataclasses import dataclass

from canary.metrics.groups import GroupsSeen, TransactionsSeen
from canary.metrics.metric import Measurement
from canary.metrics.mirrors import MirrorsSeen
from canary.metrics.replicas import ReplicasSeen


@dataclass(frozen=True, slots=True)
class Watched:
    """Each is None while nothing is known of it yet, and where it is not watched; ``elections`` are series alone."""

    groups: GroupsSeen | None = None
    transactions: TransactionsSeen | None = None
    replicas: ReplicasSeen | None = None
    mirrors: MirrorsSeen | None = None
    elections: tuple[Measurement, ...] = ()

    def measurements(self) -> Iterator[Measurement]:
        """Yield the series of all of them."""
        for part in (self.groups, self.transactions, self.replicas, self.mirrors):
            if part is not None:
                yield from part.measurements()
        yield from self.elections
