"""/healthz and /readyz, for orchestrators and load balancers."""

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse
from starlette.responses import Response

from api.judgement.safety import STORE_LOCKED, judge, silence
from api.knowledge.views import ClusterView
from api.problems import Problem, problem
from api.state import Knowledge, Shared

router = APIRouter(tags=["health"])


@router.get("/healthz", response_class=PlainTextResponse, summary="The process lives")
async def healthz() -> str:
    """Answer while the process lives, with or without the store."""
    return "ok\n"


@router.get(
    "/readyz",
    response_class=PlainTextResponse,
    responses={503: {"model": Problem, "description": "The store or a runner is missing."}},
    summary="The store answers and every configured cluster is being watched",
)
async def readyz(request: Request, state: Shared) -> Response:
    """Answer 200 when the store is reachable and runners judge every cluster, else 503 with the reason.

    Where a cluster does not answer its runner, the API is ready all the same, to show that; the answer says it, too.
    """
    knowledge = await state.knowledge(within=2.0)
    missing = silent(knowledge, state.configured)
    if missing:
        return problem(request, 503, missing, title="Not ready")
    judged = (judge(view, knowledge) for view in knowledge.clusters.values())
    unknown = [found.sentence for found in judged if found.level == "unknown"]
    return PlainTextResponse("".join(f"{line}\n" for line in ("ready", *unknown)))


def _remedy(view: ClusterView) -> str:
    if view.writes.takes is False:
        return "See whether the database is locked, read-only, or its disk full."
    if not view.runners:
        return "Start one with `canary run`."
    return "See whether its runner lives, and read the end of its log."


def silent(knowledge: Knowledge, configured: tuple[str, ...]) -> str | None:
    """Return why a configured cluster (without any: every cluster) has no runner that judges it, or None."""
    clusters = knowledge.clusters
    if not configured:
        if any(view.judges for view in clusters.values()):
            return None
        if knowledge.writes.takes is False:
            return f"{STORE_LOCKED} ({knowledge.writes.why}): what runners find does not arrive."
        return "No runner has stored what it knows lately; start one with `canary run`."
    for name in configured:
        view = clusters[name]
        if said := silence(view):
            return f"{said} {_remedy(view)}"
    return None
