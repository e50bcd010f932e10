"""The labs of a test session: one at a time, made when a test asks for its profile, kept for the tests after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from canary.lab import Lab, NodeProperties

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from canary.lab.state import Profile

SHARED: Final = NodeProperties(
    {
        "min.insync.replicas": 2,
        "log.retention.check.interval.ms": 500,
        "log.initial.task.delay.ms": 500,
        "replica.fetch.wait.max.ms": 500,
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    },
    single={1: {"broker.rack": "a"}, 2: {"broker.rack": "b"}, 3: {"broker.rack": "c"}},
)
"""Brokers in racks of their own that serve reads to their rack, and look twice a second for what is expired.

Followers ask for new records as often as Kafka's do, also in the quick profile: five times as often costs 0.04 CPU-s a
second while nothing happens, and most tests wait. What is written comes to them as soon.
"""
PROFILES: Final[dict[Profile, dict[str, Any]]] = {
    "calm": {},
    "quick": {"features": {"eligible.leader.replicas.version": 0}},  # one follower frozen is enough (FIELD-NOTES)
}

known: Final[dict[str, Lab]] = {}
"""Every lab of this session, by its bootstrap servers; what happened to one that was stopped stays readable."""


class Watched(Lab):
    """A lab whose events explain what a canary says of it, and are evidence of a stall; see tests.support.stalls."""

    def start(self, *args: Any, **kwargs: Any) -> None:
        """Start it."""
        super().start(*args, **kwargs)
        known[self.bootstrap] = self


_shared: dict[Profile, Lab] = {}
"""The one that runs, by its profile."""


def shared(profile: Profile, make_directory: Callable[[], Path]) -> Lab:
    """Return the running lab of a profile; one of another profile is stopped first.

    Args:
        profile: of the lab.
        make_directory: gives a new, empty one for each lab.
    """
    if profile not in _shared:
        discard()
        lab = Watched(make_directory(), profile=profile, properties=SHARED, **PROFILES[profile], die_with_parent=True)
        lab.start()
        _shared[profile] = lab
    return _shared[profile]


def discard() -> None:
    """Stop the lab that runs; the next test gets a fresh one."""
    while _shared:
        _shared.popitem()[1].stop(hard=True)
