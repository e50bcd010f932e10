"""What keeps a runner from its work now, and the violation that says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from canary.anomalies.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why something cannot work now, in words. ``blind``: losses may go unnoticed meanwhile."""

    words: str
    blind: bool


def incarnation(runner: str, since_ns: int | None = None) -> str:
    """Return what stands for the topic's id in a runner's blindness; without ``since_ns``, how it begins."""
    return f"runner {runner} since {'' if since_ns is None else since_ns}"


def blindness(runner: str, troubles: Mapping[str, Trouble], since_ns: int) -> Violation:
    """Return what is said while losses may go unnoticed: one violation from ``since_ns`` on, whatever the reasons."""
    return Violation(
        kind="blind",
        severity="critical",
        topic="",
        topic_id=incarnation(runner, since_ns),
        partition=None,
        offset=None,
        identity=None,
        mode=None,
        at_ns=since_ns,
        by="watch",
        summary=f"runner {runner} cannot judge: "
        + "; ".join(trouble.words for trouble in troubles.values() if trouble.blind),
        evidence={"troubles": {part: trouble.words for part, trouble in troubles.items()}},
    )
