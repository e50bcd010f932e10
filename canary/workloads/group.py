"""A consumer group on the main topic."""

from dataclasses import dataclass

from canary.workloads.descriptor import Common, Workload, count, duration


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings(Common):
    """How many members there are, and how often they commit and leave."""

    interval: float = duration(0.5, "Time between two commits of a member (duration).", gt=0)
    members: int = count(2, "Members of the group (count).", ge=1, le=50)
    rebalance_every: float = duration(30.0, "How often a member leaves and another one joins (duration).", gt=0)
    session_timeout: float = duration(10.0, "session.timeout.ms of members (duration).", ge=1, le=1800)


WORKLOAD = Workload(
    name="group",
    number=4,
    topic="none",
    source="idempotent",
    settings=GroupSettings,
    summary="A consumer group on the main topic: members join and leave on purpose, and commit explicitly.",
    does="a consumer group on the main topic whose members join, leave and commit, and ask for what they committed",
    finds="committed offsets that go back, groups that forget",
    costs="a consumer for each member, no records",
)
