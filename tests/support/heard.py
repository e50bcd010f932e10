"""What a part that judges by itself has reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canary.anomalies.violation import Violation


class Heard:
    """Takes reports, and keeps them."""

    def __init__(self) -> None:
        self.said: list[Violation] = []
        self.over: list[Violation] = []

    def __call__(self, said: Sequence[Violation], over: Sequence[Violation]) -> None:
        self.said += said
        self.over += over

    def first(self, kind: str) -> Violation | None:
        return next((one for one in self.said if one.kind == kind), None)
