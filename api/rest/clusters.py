"""GET clusters, clusters/{c}/summary, clusters/{c}/partitions; DELETE clusters/{c}."""

from typing import Any

from fastapi import APIRouter, Request

from api.actions import note
from api.judgement import judge, loss_bound
from api.places import find_cluster
from api.problems import RESPONSES, ProblemError
from api.shapes import ClusterOut, ForgottenOut, Listing, ProbeCounts, RunnerOut, Summary, moment, moment_or_none
from api.state import Knowledge, state_of
from api.views import ClusterView
from canary.anomalies.catalogue import CATALOGUE
from storage.store.retention import StillProbedError

router = APIRouter(prefix="/clusters", tags=["clusters"], responses={k: RESPONSES[k] for k in (422, 503)})


@router.get("", summary="All clusters that are probed")
async def clusters(request: Request) -> Listing[ClusterOut]:
    """List every cluster that is configured here or that any runner has reported on."""
    knowledge = await state_of(request).knowledge()
    return Listing[ClusterOut](
        items=[_cluster(view, knowledge) for view in knowledge.clusters.values()], next_cursor=None
    )


@router.get("/{cluster}/summary", summary="Is my data safe", responses={404: RESPONSES[404]})
async def summary(request: Request, cluster: str) -> Summary:
    """Say in one sentence whether the cluster kept what it acknowledged, with the numbers behind it."""
    knowledge = await state_of(request).knowledge()
    return summarise(find_cluster(knowledge, cluster), knowledge)


@router.get("/{cluster}/partitions", summary="Every probed partition", responses={404: RESPONSES[404]})
async def partitions(request: Request, cluster: str) -> Listing[dict[str, Any]]:
    """List leader, epoch, replicas, offsets, outcomes and each consumer's progress of every partition."""
    view = find_cluster(await state_of(request).knowledge(), cluster)
    return Listing[dict[str, Any]](items=view.partitions, next_cursor=None)


@router.delete(
    "/{cluster}",
    summary="Forget a decommissioned cluster",
    responses={status: RESPONSES[status] for status in (404, 409)},
)
async def forget(request: Request, cluster: str) -> ForgottenOut:
    """Take a cluster that nobody probes any more out of views, metrics and alerts, its violations too, for ever.

    One that is still in the settings goes on being listed, as one that nobody has probed yet.
    """
    state = state_of(request)
    await note(request, "forget", f"cluster {cluster}")
    try:
        deleted = await state.calls(state.store.forget, cluster, state.now_ns())
    except StillProbedError as error:
        raise ProblemError(409, f"{error}.") from None
    if deleted is None:
        names = ", ".join(await state.calls(state.store.clusters)) or "none"
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
        since=moment_or_none(view.since_ns),
        probes=probe_counts(view),
        violations=found,
        loss_rate_upper_95=loss_bound(view, knowledge.standing),
    )


def probe_counts(view: ClusterView) -> ProbeCounts:
    """Return the totals of one cluster; they agree with /metrics."""
    by_place: dict[tuple[str, ...], float] = {}
    for (name, labels), value in view.series.items():
        if name == "canary_unseen_probes":
            by_place[labels[:2]] = max(by_place.get(labels[:2], 0), value.value)
    return ProbeCounts(
        sent=view.total("canary_probes_sent_total"),
        acked=view.total("canary_probes_acked_total"),
        failed=view.total("canary_probes_failed_total"),
        indeterminate=view.total("canary_probes_indeterminate_total"),
        seen=view.total("canary_probes_seen_total"),
        unseen=int(sum(by_place.values())),
    )


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
        runners=[
            RunnerOut(
                name=runner.name,
                last_seen_at=moment(runner.at_ns),
                fresh=runner.fresh,
                waiting_for=runner.waiting_for,
            )
            for runner in view.runners
        ],
    )
