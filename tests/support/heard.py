"""What a part that judges by itself has reported, and which clusters its clients have met: an inbox that keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canary.anomalies.violation import violation_of
from canary.facts import ClusterMet, Reported

if TYPE_CHECKING:
    from canary.anomalies.violation import Violation
    from canary.facts import Facts


class Heard:
    """Takes reports, and keeps them. ``met``: clusters, in order; ``found_in``: the cluster of each that is said."""

    def __init__(self) -> None:
        self.met: list[str] = []
        self.found_in: list[str | None] = []
        self.said: list[Violation] = []
        self.over: list[Violation] = []

        self.paused = False

    def put(self, facts: Facts, /) -> None:
        for one in facts:
            if isinstance(one, ClusterMet):
                self.met.append(one.cluster_id)
                continue
            assert isinstance(one, Reported)
            self.found_in += [] if one.over else [one.cluster_id]
            (self.over if one.over else self.said).append(violation_of(one))

    def first(self, kind: str) -> Violation | None:
        return next((one for one in self.said if one.kind == kind), None)
