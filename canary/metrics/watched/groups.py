"""What a runner publishes of groups and transactions of applications: views, and the series made of them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

from canary.anomalies.age import not_looked_at
from canary.anomalies.groups.rounds import GroupView
from canary.anomalies.groups.stable import HangingView
from canary.metrics.metric import Measurement


@dataclass(frozen=True, slots=True)
class GroupsSeen:
    """The groups that are watched, as of ``at_ns``; ``left_out``: further ones that are not.

    ``unknown``: why nothing is known of groups now, whichever there are; None: it is known which there are.
    """

    at_ns: int = 0
    groups: tuple[GroupView, ...] = ()
    left_out: int = 0
    unknown: str | None = None

    def aged(self, now_ns: int, most_s: float) -> Self:
        """Return the same, with nothing known of any group if it is older than ``most_s``: nobody looks any more."""
        reason = not_looked_at(self.at_ns, now_ns, most_s)
        if reason is None:
            return self
        return replace(self, groups=tuple(one.lost(reason) for one in self.groups), unknown=reason)

    def measurements(self) -> Iterator[Measurement]:
        """Yield the series."""
        unknown = sum(one.error is not None for one in self.groups)
        yield Measurement("canary_groups_unknown", (), max(unknown, int(self.unknown is not None)))
        yield Measurement("canary_groups_left_out", (), self.left_out)
        for group in self.groups:
            name = (group.group,)
            for state, count in group.states.items():
                yield Measurement("canary_group_partitions", (*name, state), count)
            yield Measurement("canary_group_partitions_left_out", name, group.left_out)
            if group.error is not None:
                continue
            yield Measurement("canary_group_members", name, group.members or 0)
            yield Measurement("canary_group_lag_offsets_sum", name, group.lag)
            yield Measurement("canary_group_lag_seconds_max", name, group.lag_s)
            yield Measurement("canary_group_lag_seconds_at_least", name, group.at_least)
            for one in group.places:
                place = (*name, one.topic, str(one.partition))
                if one.lag is not None:
                    yield Measurement("canary_group_lag_offsets", place, one.lag)
                if one.lag_s is not None:
                    yield Measurement("canary_group_lag_seconds", place, one.lag_s)


@dataclass(frozen=True, slots=True)
class TransactionsSeen:
    """The transactions that hang, as of ``at_ns``.

    ``unknown``: why they cannot be looked for now; None: they can.
    """

    at_ns: int = 0
    hanging: tuple[HangingView, ...] = ()
    unknown: str | None = None

    def aged(self, now_ns: int, most_s: float) -> Self:
        """Return the same, as not known if it is older than ``most_s``: nobody looks any more."""
        reason = not_looked_at(self.at_ns, now_ns, most_s)
        return self if reason is None else replace(self, unknown=reason)

    def measurements(self) -> Iterator[Measurement]:
        """Yield the series; how many hang is unknown while they cannot be looked for."""
        yield Measurement("canary_transactions_unknown", (), int(self.unknown is not None))
        if self.unknown is None:
            yield Measurement("canary_hanging_transactions", (), len(self.hanging))
