"""What an anomaly weighs, and which ones are a loss: for the tracker, the nightly reconciliation and `canary check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from canary.anomalies.catalogue import CATALOGUE

if TYPE_CHECKING:
    from canary.anomalies.violation import Severity

UNORDERED: Final = frozenset({"plain"})
"""Modes with acks=1 and without idempotence."""
_PROMISED_TO_IDEMPOTENCE: Final = frozenset(
    {"lost-write", "truncation", "inconsistent-offsets", "duplicate", "reorder", "nonmonotonic-send"}
)
"""What only acks=all with idempotence rules out: critical there; a warning where acks=1 has to expect it."""
_WHERE_WE_DO_NOT_WRITE: Final[dict[str, Severity]] = {"isr-of-one": "warning"}
"""What weighs less in a topic that is not probed: with two replicas and min.insync.replicas=1 a restart makes it so."""
_AT_THE_END: Final[dict[str, Severity]] = {"unseen": "warning"}
"""What weighs more once nothing comes after it: unseen is a delay while probing, and no delay in a finished history."""

WRITES_LOST: Final = "lost-write"
"""The kind whose records are the acknowledged writes that are gone, one each; "lost, ever" counts it."""
LOSSES: Final = frozenset(
    {WRITES_LOST, "truncation", "offset-regression", "early-expiry", "fractured-transaction", "corrupt"}
)
"""Kinds that each mean by themselves that an acknowledged write was not kept."""
FORGOTTEN: Final = "memory-lost"
"""The kind that says that nothing is known of a time that is over."""
BLINDNESS: Final = frozenset({"blind", "another-cluster", FORGOTTEN})
"""Kinds that mean that nothing can be known: neither a broken promise nor a kept one."""


def severity(kind: str, *modes: str | None, probed: bool = True, finished: bool = False) -> Severity:
    """Return what an anomaly weighs.

    Args:
        kind: a name of the catalogue.
        modes: of the probes that it is about; none, or None, where that is not known.
        probed: it is about a topic that we write to.
        finished: it stands at the end of a recorded history.
    """
    known = {mode for mode in modes if mode is not None}
    if known and kind in _PROMISED_TO_IDEMPOTENCE:
        return "warning" if known <= UNORDERED else "critical"
    usual = CATALOGUE[kind].severity
    if not probed:
        return _WHERE_WE_DO_NOT_WRITE.get(kind, usual)
    return _AT_THE_END.get(kind, usual) if finished else usual
