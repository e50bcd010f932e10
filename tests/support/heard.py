"""What a part that judges by itself has reported: an inbox that keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canary.anomalies.violation import violation_of
from canary.facts import Reported

if TYPE_CHECKING:
    from canary.anomalies.violation import Violation
    from canary.facts import Facts


class Heard:
    """Takes reports, and keeps them."""

    def __init__(self) -> None:
        self.said: list[Violation] = []
        self.over: list[Violation] = []

        self.paused = False

    def put(self, facts: Facts, /) -> None:
        for one in facts:
            assert isinstance(one, Reported)
            (self.over if one.over else self.said).append(violation_of(one))

    def first(self, kind: str) -> Violation | None:
        return next((one for one in self.said if one.kind == kind), None)
