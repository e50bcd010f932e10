"""What keeps a runner from its work now, and the violation that reports it."""

from collections.abc import Mapping
from dataclasses import dataclass

from canary.anomalies.violation import Violation


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why something cannot work now, in words. ``blind``: losses may go unnoticed meanwhile."""

    words: str
    blind: bool


def incarnation(runner: str, since_ns: int | None = None) -> str:
    """Return the topic id of a runner's blindness; without ``since_ns``, its prefix."""
    return f"runner {runner} since {'' if since_ns is None else since_ns}"


def blindness(runner: str, troubles: Mapping[str, Trouble], since_ns: int, now_ns: int | None = None) -> Violation:
    """Return the violation while losses may go unnoticed: one from ``since_ns`` on, whatever the reasons.

    ``now_ns``: when it is said; None: when it began.
    """
    return Violation(
        kind="blind",
        severity="critical",
        topic_id=incarnation(runner, since_ns),
        at_ns=since_ns if now_ns is None else now_ns,
        by="watch",
        summary=f"runner {runner} cannot judge: "
        + "; ".join(trouble.words for trouble in troubles.values() if trouble.blind),
        evidence={"since_ns": since_ns, "troubles": {part: trouble.words for part, trouble in troubles.items()}},
    )
