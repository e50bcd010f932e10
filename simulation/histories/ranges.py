"""Violations of ranges, told record by record: what a test knows of a loss is which records it destroyed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canary.anomalies.violation import Violation


def one_by_one(violation: Violation) -> Iterator[Violation]:
    """Yield a violation for each record of ``violation``."""
    for run in violation.runs:
        for i in range(run.size):
            yield violation.about([run.part(i, 1)])
