"""How old a record must be that retention is said to have removed: one rule, online and at night."""

from __future__ import annotations

from typing import Final

_SLACK: Final = 0.1
_MOST_SLACK_MS: Final = 60_000


def least_age_ms(retention_ms: int) -> float:
    """Return how old (in ms, by its sending) a record is at least that a retention has removed.

    Clocks of brokers and canary may differ by a tenth of the retention, and by a minute at most.

    >>> least_age_ms(10_000), least_age_ms(604_800_000)
    (9000.0, 604740000)

    Args:
        retention_ms: ``retention.ms`` in force, not negative (that is none).
    """
    return retention_ms - min(retention_ms * _SLACK, _MOST_SLACK_MS)
