"""GET audit, groups, transactions, mirrors: what the runners last found when they looked at what is not theirs."""

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from api.judgement.known_places import find_cluster, must_exist
from api.knowledge.views import ClusterView, readable
from api.problems import documented
from api.shapes import ClusterName, Moment, Shape, moment, moment_or_none
from api.state import Shared, State
from canary.anomalies.anomaly import Severity
from canary.anomalies.groups.rounds import GroupView
from canary.anomalies.groups.stable import HangingView
from canary.anomalies.mirrormaker.mirror import MirrorView
from canary.metrics.findings import Audit

router = APIRouter(responses=documented(422, 503, 404))


class FindingOut(Shape):
    """An unsafe setting."""

    cluster: str
    check: str = Field(description="Name of the check.")
    severity: Severity
    where: str = Field(description="The topic, brokers or cluster.")
    found: str = Field(description="What it is.")
    why: str = Field(description="Why it matters.")
    change: str = Field(description="How to change it.")


class NoteOut(Shape):
    """Not a finding: a risk that every cluster has, or a part that could not be audited."""

    cluster: str
    where: str
    text: str


class AuditedOut(Shape):
    """When a cluster was last audited."""

    cluster: str
    at: Moment


class AuditOut(Shape):
    """The last audit of each cluster."""

    items: list[FindingOut]
    notes: list[NoteOut]
    audited: list[AuditedOut]
    next_cursor: None = None


class GroupPlaceOut(Shape):
    """How far a group is in a partition."""

    topic: str
    partition: int
    committed: int | None = Field(description="The committed offset; null: there is none, or it is not known.")
    end: int | None = Field(description="The end of the log (exclusive).")
    lag: int | None = Field(description="Records that it has not committed; null: not known.")
    lag_seconds: float | None = Field(
        validation_alias="lag_s", description="Age of the first record that it has not committed; null: not known."
    )
    lag_seconds_at_least: bool = Field(validation_alias="at_least", description="That record is older than known.")
    state: str = Field(description="ok, stuck, unmoved, stopped, reset, expired or unknown.")


class GroupOut(Shape):
    """A consumer group of an application. Sums are of all partitions, also of those that are left out here."""

    cluster: str
    group: str
    at: Moment = Field(description="When it was looked at.")
    members: int | None = Field(description="null: not known.")
    error: str | None = Field(description="Why nothing is known of it now.")
    lag: int
    lag_seconds: float = Field(description="The greatest one that is known.")
    states: dict[str, int] = Field(description="How many partitions are in each state.")
    partitions: list[GroupPlaceOut]
    left_out: int = Field(description="Further partitions (watch.group_partitions).")


class UnknownOut(Shape):
    """A cluster of which it is not known."""

    cluster: str
    reason: str


class GroupsOut(Shape):
    """The groups that are watched."""

    items: list[GroupOut]
    unknown: list[UnknownOut] = Field(description="Clusters of which it is not known which groups there are, and why.")
    next_cursor: None = None


class TransactionOut(Shape):
    """A transaction that hangs, and the command that ends it."""

    cluster: str
    topic: str
    partition: int
    start_offset: int
    high_watermark: int
    since: Moment = Field(description="Since when the last stable offset stands still, as far as was seen.")
    producer_id: int | None
    producer_epoch: int | None
    transactional_id: str | None
    coordinator: int | None = Field(description="The broker that coordinates it.")
    state: str | None = Field(description="By its coordinator.")
    started_at: Moment | None = Field(description="By its coordinator, or its producer.")
    timeout_ms: int | None
    known: bool | None = Field(description="Whether its coordinator has this very transaction; null: not known.")
    unknown: str | None = Field(description="Why something of this is not known.")
    command: str


class TransactionsOut(Shape):
    """The transactions that hang in the topics that are watched."""

    items: list[TransactionOut]
    unknown: list[UnknownOut] = Field(description="Clusters of which it is not known whether others hang, and why.")
    next_cursor: None = None


class MirrorPlaceOut(Shape):
    """What is known of a partition of a mirrored topic."""

    partition: int
    behind_seconds: float | None = Field(
        validation_alias="behind_s",
        description="Age of the oldest probe of the source that is not in the mirrored topic, 0 if all are; null: not "
        "known.",
    )
    waiting: int = Field(description="Probes of the source that are not in the mirrored topic yet.")
    missing: int = Field(description="Probes that are missing in gaps that were said.")
    unknown: str | None = Field(description="Why it is not known how far it is behind; null: it is.")


class FailoverOut(Shape):
    """Where a group of the source would go on in the mirrored topic, by MirrorMaker 2's checkpoints."""

    group: str
    partition: int
    upstream: int = Field(description="The group's committed offset in the source.")
    downstream: int = Field(description="Its translated offset in the mirrored topic.")
    skips: int | None = Field(description="Probes that it would not be given; null: not known.")
    rereads: int | None = Field(
        description="Records of the mirrored topic that it would be given again; null: unknown."
    )
    unknown: str | None = Field(description="Why that is not known; null: it is.")


class MirrorOut(Shape):
    """A topic of another cluster that MirrorMaker 2 copies to this one."""

    cluster: str
    source: str = Field(description="The cluster that has the original.")
    topic: str = Field(description="The topic in the source.")
    mirrored: str = Field(description="The topic in this cluster.")
    at: Moment = Field(description="When it was looked at.")
    recovery_point_seconds: float | None = Field(
        validation_alias="recovery_point_s",
        description="Age of the oldest probe that would be lost with the source now, 0 if none; null: not known.",
    )
    recovery_point_objective_seconds: float = Field(validation_alias="bound_s", description="What that may be.")
    unknown: str | None = Field(description="Why it is not known what is missing or behind; null: it is.")
    newest_copied: Moment | None = Field(description="When the newest probe in the mirrored topic was sent.")
    waiting: int = Field(description="Probes of the source that are not in the mirrored topic yet.")
    missing: int = Field(description="Probes that are missing in gaps that were said (mirror-gap).")
    counts: dict[str, int] = Field(
        description="Records of the mirrored topic by what they were, since the runner began (see "
        "canary_mirror_records_total)."
    )
    partitions: list[MirrorPlaceOut]
    failovers: list[FailoverOut]
    translation_unknown: str | None = Field(description="Why nothing is known of translated offsets; null: it is.")


class MirrorsOut(Shape):
    """The mirrored topics that are watched."""

    items: list[MirrorOut]
    unknown: list[UnknownOut] = Field(description="Clusters of whose mirrored topics nothing is known, and why.")
    next_cursor: None = None


_NOT_JUDGED = "no runner judges the cluster now, or it watches none"


@router.get(
    "/groups", tags=["applications"], summary="How far consumer groups of applications are, and which are stuck"
)
async def groups(
    state: Shared, cluster: ClusterName = None, group: Annotated[str | None, Query(max_length=255)] = None
) -> GroupsOut:
    """List the groups under watch.groups, as the runners last saw them."""
    items: list[GroupOut] = []
    unknown: list[UnknownOut] = []
    for view in await _clusters(state, cluster):
        seen = view.groups
        reason = _NOT_JUDGED if seen is None else seen.unknown
        if reason is not None:
            unknown.append(UnknownOut(cluster=view.name, reason=reason))
        if seen is not None:
            items += [_group(view.name, seen.at_ns, one) for one in seen.groups if group in {None, one.group}]
    return GroupsOut(items=items, unknown=unknown)


@router.get("/transactions", tags=["applications"], summary="Transactions that hang, and the commands that end them")
async def transactions(state: Shared, cluster: ClusterName = None) -> TransactionsOut:
    """List the transactions that hang in topics under watch.transactions, as the runners last saw them."""
    items: list[TransactionOut] = []
    unknown: list[UnknownOut] = []
    for view in await _clusters(state, cluster):
        seen = view.transactions
        reason = _NOT_JUDGED if seen is None else seen.unknown
        if reason is not None:
            unknown.append(UnknownOut(cluster=view.name, reason=reason))
        items += [_transaction(view.name, one) for one in (seen.hanging if seen is not None else ())]
    return TransactionsOut(items=items, unknown=unknown)


@router.get(
    "/mirrors", tags=["mirrors"], summary="Topics mirrored from other clusters: how far behind, what is missing"
)
async def mirrors(state: Shared, cluster: ClusterName = None) -> MirrorsOut:
    """List the mirrored topics under replicated_from, as the runners last saw them."""
    items: list[MirrorOut] = []
    unknown: list[UnknownOut] = []
    for view in await _clusters(state, cluster):
        if view.mirrors is None:
            unknown.append(UnknownOut(cluster=view.name, reason=_NOT_JUDGED))
        items += [_mirror(view.name, one) for one in (view.mirrors.mirrors if view.mirrors is not None else ())]
    return MirrorsOut(items=items, unknown=unknown)


def _mirror(cluster: str, one: MirrorView) -> MirrorOut:
    known = asdict(one)
    at_ns, copied_ns, places = known.pop("at_ns"), known.pop("copied_ns"), known.pop("places")
    return MirrorOut.model_validate(
        {
            **known,
            "cluster": cluster,
            "at": moment(at_ns),
            "newest_copied": moment_or_none(copied_ns),
            "partitions": places,
        }
    )


async def _clusters(state: State, name: str | None) -> list[ClusterView]:
    knowledge = await state.knowledge()
    return list(knowledge.clusters.values()) if name is None else [find_cluster(knowledge, name)]


def _group(cluster: str, at_ns: int, one: GroupView) -> GroupOut:
    return GroupOut(
        cluster=cluster,
        group=one.group,
        at=moment(at_ns),
        members=one.members,
        error=one.error,
        lag=one.lag,
        lag_seconds=one.lag_s,
        states=dict(one.states),
        partitions=[GroupPlaceOut.model_validate(place) for place in one.places],
        left_out=one.left_out,
    )


def _transaction(cluster: str, one: HangingView) -> TransactionOut:
    known = asdict(one)
    holder, since_ns = known.pop("holder"), known.pop("since_ns")
    started = moment_or_none(holder.pop("started_ns"))
    return TransactionOut(cluster=cluster, since=moment(since_ns), started_at=started, **known, **holder)


@router.get("/audit", tags=["audit"], summary="What is unsafe about the settings")
async def audit(state: Shared, cluster: ClusterName = None) -> AuditOut:
    """List the findings of each cluster's last audit."""
    latest: dict[str, Audit] = {}
    for row, shown in readable(await state.calls(state.store.views.all)):
        known = latest.get(row.cluster)
        if shown.audit and cluster in {None, row.cluster} and (known is None or known.at_ns < shown.audit.at_ns):
            latest[row.cluster] = shown.audit
    if not latest:
        await must_exist(state, cluster)
    return AuditOut(
        items=[FindingOut(cluster=name, **asdict(one)) for name, found in latest.items() for one in found.findings],
        notes=[NoteOut(cluster=name, **asdict(one)) for name, found in latest.items() for one in found.notes],
        audited=[AuditedOut(cluster=name, at=moment(found.at_ns)) for name, found in latest.items()],
    )
