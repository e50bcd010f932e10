"""What a runner publishes of the leader epochs of logs that are watched, and of the metadata quorum."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

from canary.anomalies.age import not_looked_at
from canary.metrics.metric import Measurement


@dataclass(frozen=True, slots=True)
class EpochsWatched:
    """How many logs are watched, as of ``at_ns``; of ``unknown`` of them the epochs are not known now, and why."""

    at_ns: int
    partitions: int
    unknown: int
    reason: str | None = None

    def aged(self, now_ns: int, most_s: float) -> Self:
        """Return the same, as not known if it is older than ``most_s``: nobody looks any more."""
        reason = not_looked_at(self.at_ns, now_ns, most_s)
        return self if reason is None else replace(self, unknown=max(1, self.partitions), reason=reason)

    def measurements(self) -> Iterator[Measurement]:
        """Yield the series."""
        yield Measurement("canary_epochs_watched", (), self.partitions)
        yield Measurement("canary_epochs_unknown", (), self.unknown)


@dataclass(frozen=True, slots=True)
class VoterSeen:
    """A controller: its lag (entries; None: unknown), and for how long (s) it has not had all of them; 0: it has."""

    node: int
    lag: int | None
    behind_s: float


@dataclass(frozen=True, slots=True)
class QuorumWatched:
    """The metadata quorum, as of ``at_ns``; ``unknown``: why nothing is known of it now, None: it is known."""

    at_ns: int
    leader: int = -1
    epoch: int = -1
    voters: tuple[VoterSeen, ...] = ()
    unknown: str | None = None

    def aged(self, now_ns: int, most_s: float) -> Self:
        """Return the same, as not known if it is older than ``most_s``: nobody looks any more."""
        reason = not_looked_at(self.at_ns, now_ns, most_s)
        return self if reason is None else replace(self, unknown=reason)

    def measurements(self) -> Iterator[Measurement]:
        """Yield the series; none of the quorum while it is unknown."""
        yield Measurement("canary_quorum_unknown", (), int(self.unknown is not None))
        if self.unknown is not None:
            return
        yield Measurement("canary_quorum_leader", (), self.leader)
        yield Measurement("canary_quorum_epoch", (), self.epoch)
        for one in self.voters:
            yield Measurement("canary_quorum_voter_behind_seconds", (str(one.node),), one.behind_s)
            if one.lag is not None:
                yield Measurement("canary_quorum_voter_lag", (str(one.node),), one.lag)
