"""GET clusters, clusters/{c}/summary, clusters/{c}/partitions; DELETE clusters/{c}."""

from fastapi import APIRouter, Request
from pydantic import ConfigDict, Field

from api.access.auth import all_clusters
from api.access.record import note
from api.judgement.durability import CONFIDENCE, durability
from api.judgement.known_places import find_cluster, named
from api.judgement.safety import Level, judge
from api.knowledge.views import ClusterView
from api.problems import ProblemError, documented
from api.shapes import Listing, Moment, Shape, moment_or_none
from api.state import Knowledge, Shared
from canary.anomalies.catalogue import CATALOGUE
from canary.metrics.proofs import Proof, Shortfall
from canary.metrics.published import PartitionView, TopicView
from storage.store.repositories.retention import StillProbedError

router = APIRouter(prefix="/clusters", tags=["clusters"], responses=documented(422, 503))


class RunnerOut(Shape):
    """A runner, and when it last stored what it knows."""

    name: str
    last_seen_at: Moment = Field(validation_alias="at_ns")
    fresh: bool
    waiting_for: str | None


class ClusterOut(Shape):
    """A cluster that is probed."""

    name: str
    cluster_id: str | None
    healthy: bool
    level: Level
    sentence: str
    since: Moment | None
    topics: list[TopicView]
    runners: list[RunnerOut]


class ShortfallOut(Shape):
    """Partitions of which something is not known: the first few, of how many, and since when at the longest."""

    partitions: list[int]
    of: int
    since: Moment = Field(validation_alias="since_ns")


class ModeOut(Shape):
    """What is known of the writes of one mode to one topic, as one runner knows it."""

    mode: str
    topic: str
    partitions: int = Field(description="Into how many partitions of the topic the runner writes in this mode.")
    acknowledged_until: Moment | None = Field(description="When a write was acknowledged last; null: never.")
    verified_until: Moment | None = Field(
        description="All that was acknowledged until then was read back, or is counted in `unverified`; null: nothing "
        "is known."
    )
    unverified: int = Field(description="Writes that expired, or went with their topic, before they were read.")
    silent: ShortfallOut | None = Field(description="Where no write was acknowledged for too long; null: nowhere.")
    late: ShortfallOut | None = Field(description="Where what was acknowledged was not read for too long.")


class ForgottenOut(Shape):
    """How much was deleted with a cluster."""

    cluster: str
    violations: int
    incidents: int
    reconciliations: int


class ProbeCounts(Shape):
    """Totals; ``seen`` counts deliveries to each consumer, ``unseen`` probes that a consumer has not read yet."""

    sent: int
    acked: int
    failed: int
    indeterminate: int
    seen: int
    unseen: int


class Summary(Shape):
    """Whether the data of a cluster is safe, and the numbers behind it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "cluster": "prod-eu",
                    "healthy": True,
                    "sentence": "prod-eu has kept every write that it acknowledged.",
                    "details": [],
                    "modes": [],
                    "since": "2026-01-01T00:00:00.000Z",
                    "probes": {"sent": 3000, "acked": 3000, "failed": 0, "indeterminate": 0, "seen": 6000, "unseen": 0},
                    "violations": {"lost-write": 0},
                    "loss_rate_upper_95": 0.00099807,
                    "no_nights": None,
                }
            ]
        }
    )

    cluster: str
    healthy: bool
    sentence: str
    details: list[str] = Field(description="What clients reported, in their words, of what has no answer now.")
    modes: list[ModeOut]
    since: Moment | None
    probes: ProbeCounts
    violations: dict[str, int] = Field(
        description="Records that violations were ever found of, by kind; every kind is there."
    )
    loss_rate_upper_95: float | None = Field(
        description="With 95 % confidence at most this share of acknowledged writes is lost; null: none was verified."
    )
    no_nights: str | None = Field(
        description="Why nothing is reconciled at night, and what to do for it; null: nights are done, or nothing is "
        "known of the settings, as no runner has reported."
    )


class ObjectiveOut(Shape):
    """An objective of the cluster's settings: a share of events, those that are over within a bound, over a time."""

    name: str
    target: float
    within_s: float | None = Field(description="The bound in seconds; null: it has none.")
    window_s: float


class DurabilityOut(Shape):
    """The objective that allows no error: no acknowledged write is lost. How sure it is that it was met."""

    verified: int = Field(
        description="Acknowledged writes that a read_committed consumer was certainly given, or that are lost. What no "
        "reader was given so far, and what expired before, is not in it."
    )
    lost: int = Field(description="Writes ever lost, resolved ones too, without false alarms.")
    confidence: float
    loss_rate_upper: float | None = Field(
        description="The exact one-sided bound (Clopper-Pearson) of the share that is lost, if losses come one by one; "
        "they come in blocks, when leaders change. Null: nothing is verified, and nothing is known."
    )
    sentence: str


class ObjectivesOut(Shape):
    """The objectives of a cluster. Whether those of rates are met, Prometheus knows: it remembers the window."""

    cluster: str
    objectives: list[ObjectiveOut]
    durability: DurabilityOut


@router.get("", summary="All clusters that are probed")
async def clusters(state: Shared) -> Listing[ClusterOut]:
    """List every cluster that is configured here or that any runner has reported on."""
    knowledge = await state.knowledge()
    return Listing[ClusterOut](
        items=[_cluster(view, knowledge) for view in knowledge.clusters.values()], next_cursor=None
    )


@router.get("/{cluster}/summary", summary="Is my data safe", responses=documented(404))
async def summary(state: Shared, cluster: str) -> Summary:
    """Say in one sentence whether the cluster kept what it acknowledged, with the numbers behind it."""
    knowledge = await state.knowledge()
    return summarise(find_cluster(knowledge, cluster), knowledge)


@router.get("/{cluster}/objectives", summary="Objectives, and how durable writes are", responses=documented(404))
async def objectives(state: Shared, cluster: str) -> ObjectivesOut:
    """List what the settings ask of the cluster, and state with its confidence how many acknowledged writes it lost."""
    knowledge = await state.knowledge()
    view = find_cluster(knowledge, cluster)
    kept = durability(view, knowledge.groups)
    return ObjectivesOut(
        cluster=view.name,
        objectives=[
            ObjectiveOut(name=one.name, target=one.target, within_s=one.bound_s, window_s=one.window_s)
            for one in view.objectives
        ],
        durability=DurabilityOut(
            verified=kept.verified,
            lost=kept.lost,
            confidence=CONFIDENCE,
            loss_rate_upper=kept.upper_95,
            sentence=kept.sentence,
        ),
    )


@router.get("/{cluster}/partitions", summary="Every probed partition", responses=documented(404))
async def partitions(state: Shared, cluster: str) -> Listing[PartitionView]:
    """List leader, epoch, replicas, offsets, outcomes and each consumer's progress of every partition."""
    view = find_cluster(await state.knowledge(), cluster)
    return Listing[PartitionView](items=view.partitions, next_cursor=None)


@router.delete("/{cluster}", summary="Forget a decommissioned cluster", responses=documented(404, 409))
async def forget(request: Request, state: Shared, cluster: str) -> ForgottenOut:
    """Delete a cluster that is no longer probed, with its violations, from views, metrics and alerts, for ever.

    If it is still in the settings it is listed as a cluster that was never probed. Needs a token for all clusters.
    """
    all_clusters(request)
    await note(request, "forget", f"cluster {cluster}")
    try:
        deleted = await state.calls(state.store.retention.forget, cluster, state.now_ns())
    except StillProbedError as error:
        raise ProblemError(409, f"{error}.") from None
    if deleted is None:
        names = named(cluster, await state.calls(state.store.retention.clusters))
        raise ProblemError(404, f"The store holds nothing of a cluster {cluster!r}; it does of: {names}.")
    return ForgottenOut(
        cluster=cluster,
        violations=deleted.violations,
        incidents=deleted.incidents,
        reconciliations=deleted.reconciliations,
    )


def summarise(view: ClusterView, knowledge: Knowledge) -> Summary:
    """Return the summary of one cluster."""
    judgement = judge(view, knowledge)
    found = dict.fromkeys(CATALOGUE, 0)
    for row in knowledge.counts:
        if row.cluster == view.name:
            found[row.kind] = found.get(row.kind, 0) + row.total
    return Summary(
        cluster=view.name,
        healthy=judgement.healthy,
        sentence=judgement.sentence,
        details=list(judgement.details),
        modes=list(map(_mode, view.proofs)),
        since=moment_or_none(view.since_ns),
        probes=_probe_counts(view),
        violations=found,
        loss_rate_upper_95=durability(view, knowledge.groups).upper_95,
        no_nights=view.no_nights,
    )


def _mode(one: Proof) -> ModeOut:
    return ModeOut(
        mode=one.mode,
        topic=one.topic,
        partitions=one.partitions,
        acknowledged_until=moment_or_none(one.acknowledged_ns or None),
        verified_until=moment_or_none(one.verified_ns or None),
        unverified=one.unverified,
        silent=_shortfall(one.silent),
        late=_shortfall(one.late),
    )


def _shortfall(where: Shortfall | None) -> ShortfallOut | None:
    return None if where is None else ShortfallOut.model_validate(where)


def _probe_counts(view: ClusterView) -> ProbeCounts:
    """Return the totals of one cluster; they agree with /metrics."""
    counted = ("sent", "acked", "failed", "indeterminate", "seen")
    totals = {name: view.total(f"canary_probes_{name}_total") for name in counted}
    return ProbeCounts(**totals, unseen=view.unread or 0)


def _cluster(view: ClusterView, knowledge: Knowledge) -> ClusterOut:
    judgement = judge(view, knowledge)
    return ClusterOut(
        name=view.name,
        cluster_id=view.cluster_id,
        healthy=judgement.healthy,
        level=judgement.level,
        sentence=judgement.sentence,
        since=moment_or_none(view.since_ns),
        topics=view.topics,
        runners=[RunnerOut.model_validate(runner) for runner in view.runners],
    )
