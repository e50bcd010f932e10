"""What an anomaly weighs, what it shows, and the slack that clocks get: for tracker, reconciliation and `canary check`.

Everything is derived from the entries of the catalogue and from the workloads' descriptors.
"""

from typing import Final, get_args

from canary.anomalies.anomaly import Class, Severity
from canary.anomalies.catalogue import CATALOGUE
from canary.workloads.catalogue import WORKLOADS

UNORDERED: Final = frozenset(one.name for one in WORKLOADS.values() if not one.ordered)
"""Modes with acks=1 and without idempotence."""
FENCED: Final = frozenset(one.name for one in WORKLOADS.values() if one.fenced)
"""Modes in which each generation is fenced by the next one on purpose."""

WRITES_LOST: Final = "lost-write"
"""The kind whose records are the acknowledged writes that are gone, one each; "lost, ever" counts it."""
SUSPECTED: Final = "suspected-loss"
"""The kind of promises that are not found, and not confirmed as lost either: whether they are is unknown."""
FORGOTTEN: Final = "memory-lost"
"""The kind for a past time of which nothing is known."""
LOSSES: Final = frozenset(kind for kind, entry in CATALOGUE.items() if entry.shows == "loss")
"""Kinds that each mean by themselves that an acknowledged write was not kept."""
BLINDNESS: Final = frozenset(kind for kind, entry in CATALOGUE.items() if entry.shows == "blindness")
"""Kinds that mean that nothing can be known: neither a broken promise nor a kept one."""
ALERT_TEST: Final = "alert-test"
"""The kind that `canary alert test` records."""
DRILL: Final = "drill"
"""The kind of what is found in the drill topic while a drill of a live cluster runs."""
REHEARSALS: Final = frozenset({ALERT_TEST, DRILL})
"""Kinds that try the alarm: nothing is wrong, and they count as no loss."""
WIDE: Final = frozenset(kind for kind, entry in CATALOGUE.items() if entry.wide)
"""Kinds of which all violations of a cluster that hold at one time are one incident."""
CONDITIONS: Final = frozenset(kind for kind, entry in CATALOGUE.items() if entry.ends)
"""Kinds that are reported while they hold, and end by themselves."""
UNREMEMBERED: Final = frozenset(kind for kind, entry in CATALOGUE.items() if entry.scopes == ("watch",))
"""Kinds about applications and mirrors: no fact of the ledger says them, and a start knows none of before."""

KAFKAS_OWN: Final = frozenset(
    {
        "__consumer_offsets",
        "__transaction_state",
        "__cluster_metadata",
        "__share_group_state",
        "__remote_log_metadata",  # KIP-405
    }
)
"""Topics that Kafka makes for itself."""
BY_BROKERS: Final = frozenset(
    {"offline-partition", "isr-of-one", "under-min-isr", "isr-below-half", "under-replicated"}
)
"""What brokers that are gone make of many partitions at once."""

CLASSES: Final[tuple[Class, ...]] = get_args(Class)
"""The classes of incidents and alerts, the worst first."""
_SEVERITIES: Final = ("info", "warning", "critical")
AGAIN_NS: Final = 5 * 60 * 10**9
"""A condition that still holds is reported again after so long: so what outlasts a planned window is open after it."""
_CLOCK_SLACK: Final = 0.1
_MOST_CLOCK_SLACK_MS: Final = 60_000


def is_due(said_ns: int, now_ns: int) -> bool:
    """Return whether what still holds is to be reported again: so long ago, or by a clock that was ahead since."""
    return not 0 <= now_ns - said_ns < AGAIN_NS


def severity(kind: str, *modes: str | None, finished: bool = False) -> Severity:
    """Return what an anomaly weighs.

    Args:
        kind: a name of the catalogue.
        modes: of the probes that it is about; none, or None, where that is not known.
        finished: it holds at the end of a recorded history.
    """
    entry = CATALOGUE[kind]
    known = {mode for mode in modes if mode is not None}
    if known and entry.needs_idempotence:
        return "warning" if known <= UNORDERED else "critical"
    return (finished and entry.finished) or entry.severity


def is_gathered(kind: str, topic: str) -> bool:
    """Return whether all partitions of a topic share an incident of a kind.

    So it is with what an outage of brokers makes of Kafka's own topics: of 50 partitions of __consumer_offsets nobody
    wants 50 pages.

    >>> is_gathered("offline-partition", "__consumer_offsets"), is_gathered("offline-partition", "orders")
    (True, False)
    """
    return topic in KAFKAS_OWN and kind in BY_BROKERS


def class_of(kind: str) -> Class:
    """Return the class of a kind: of the catalogue, or a rehearsal. One that another version knew is a warning."""
    if kind in REHEARSALS:
        return "rehearsal"
    return CATALOGUE[kind].class_ if kind in CATALOGUE else "warning"


def rank(kind: str, severity: str) -> int:
    """Return how bad a violation is among others of one incident: the higher, the worse.

    Its severity counts first, then its class, then whether an acknowledged write is gone. What tries the alarm is
    below all else.

    >>> rank("lost-write", "critical") > rank("duplicate", "critical") > rank("blind", "critical")
    True
    >>> rank("offline-partition", "critical") > rank("lost-write", "warning") > rank("drill", "critical")
    True
    """
    if kind in REHEARSALS:
        return 0
    milder = len(CLASSES) - CLASSES.index(class_of(kind))
    return 100 * (1 + _SEVERITIES.index(severity)) + 10 * milder + (kind in LOSSES)


def alert_of(kind: str, severity: str) -> str:
    """Return the name of what rings for a violation: another one for each `rank`.

    >>> alert_of("lost-write", "critical"), alert_of("duplicate", "critical"), alert_of("blind", "critical")
    ('critical data', 'critical damage', 'critical blindness')
    """
    is_damage = class_of(kind) == "data" and kind not in LOSSES
    return f"{severity} {'damage' if is_damage else class_of(kind)}"


def allowed(options: frozenset[str]) -> frozenset[str]:
    """Return the anomalies that do not make a history invalid with ``options`` of `canary check`."""
    return frozenset(kind for kind, entry in CATALOGUE.items() if entry.allowed_with in {"always", *options})


def least_age_ms(retention_ms: int) -> float:
    """Return the age (in ms, since it was sent) below which retention does not explain that a record is gone.

    Clocks of brokers and canary may differ by a tenth of ``retention_ms`` (not negative), and by a minute at most.

    >>> least_age_ms(10_000), least_age_ms(604_800_000)
    (9000.0, 604740000)
    """
    return retention_ms - min(retention_ms * _CLOCK_SLACK, _MOST_CLOCK_SLACK_MS)


def explains_by_size(retention_bytes: int, size_bytes: int) -> bool:
    """Say whether a log of a size may be one from which brokers deleted by ``retention_bytes`` (not negative).

    They delete the oldest segment as long as what is left is not smaller than that (Redpanda: until it is not larger).
    The log may have grown since it was measured: a half counts as near it.

    >>> explains_by_size(10**9, 6 * 10**8), explains_by_size(10**9, 10**5)
    (True, False)
    """
    return 2 * size_bytes >= retention_bytes
