"""GET probes/{producer}/{generation}/{partition}/{sequence}, and log: what the probe log tells."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request

from api.paging import Limit
from api.places import must_exist
from api.problems import RESPONSES, ProblemError
from api.shapes import Listing, LogItem, ProbeIdentity, ProbeLife, Sight
from api.state import state_of
from canary.probe.identity import Identity

router = APIRouter(tags=["probes"], responses={k: RESPONSES[k] for k in (422, 503)})

Long = Annotated[int, Path(ge=0, lt=2**63)]
Int = Annotated[int, Path(ge=0, lt=2**31)]
YOUNG = "Probes reach the probe log within a minute: of younger ones nothing is here yet."


@router.get(
    "/probes/{producer}/{generation}/{partition}/{sequence}",
    summary="The life of one probe",
    responses={404: RESPONSES[404]},
)
async def probe(request: Request, producer: Long, generation: Int, partition: Int, sequence: Long) -> ProbeLife:
    """Return when a probe was sent, what became of it, its transaction, and who saw it where."""
    state = state_of(request)
    identity = Identity(producer, generation, partition, sequence)
    found = await state.ask_log(None, None, state.probe_log.find, identity)
    if found is None:
        raise ProblemError(404, f"The probe log does not know this probe. {YOUNG}")
    return _life(identity, found)


@router.get("/log", summary="Offsets, what we know to be there, and who saw it", responses={404: RESPONSES[404]})
async def log(
    request: Request,
    *,
    cluster: Annotated[str, Query(max_length=249)],
    topic: Annotated[str, Query(max_length=249)],
    partition: Annotated[int, Query(ge=0, lt=2**31)],
    start: Annotated[int, Query(alias="from", ge=0, lt=2**63, description="First offset.")] = 0,
    end: Annotated[int, Query(alias="to", ge=0, lt=2**63, description="Offset after the last one.")] = 2**63 - 1,
    cursor: Annotated[str | None, Query(pattern=r"^\d{1,19}$", description="next_cursor of the page before.")] = None,
    limit: Limit = 100,
) -> Listing[LogItem]:
    """List offsets of a partition in order; two items at one offset are two identities that claim it."""
    state = state_of(request)
    begin = max(start, min(int(cursor), 2**63 - 1)) if cursor else start
    rows = await state.ask_log(cluster, (), state.probe_log.between, cluster, topic, partition, begin, end, limit + 1)
    if not rows:
        await must_exist(state, cluster, topic, partition)
    shown, more = _whole_offsets([_item(row) for row in rows], limit)
    return Listing[LogItem](items=shown, next_cursor=None if more is None else str(more))


def _whole_offsets(items: list[LogItem], limit: int) -> tuple[list[LogItem], int | None]:
    """Return the page and the offset at which the next begins: an offset with two claims is never cut in two."""
    if len(items) <= limit:
        return items, None
    following = items[limit].offset
    page = [item for item in items if item.offset < following]
    if page:
        return page, following
    return items, items[-1].offset + 1


def _item(row: Mapping[str, Any]) -> LogItem:
    return LogItem(
        offset=row["offset"],
        topic_id=row.get("topic_id"),
        identity=ProbeIdentity(
            producer_id=row["producer_id"],
            generation=row["generation"],
            partition=row["partition"],
            sequence=row["sequence"],
        ),
        outcome=row.get("outcome"),
        seen_by=list(row.get("seen_by") or ()),
    )


def _life(identity: Identity, found: Mapping[str, Any]) -> ProbeLife:
    sent: Mapping[str, Any] = found.get("probe") or {}
    polls = found.get("polls") or []
    place: Mapping[str, Any] = sent or (polls[0] if polls else {})
    return ProbeLife(
        cluster=place.get("cluster", ""),
        topic=place.get("topic", ""),
        mode=sent.get("mode"),
        identity=ProbeIdentity(**identity._asdict()),
        transaction_id=sent.get("transaction_id"),
        sent_at=_when(sent.get("sent_at")),
        outcome=sent.get("outcome"),
        offset=sent.get("offset"),
        acked_at=_when(sent.get("acked_at")),
        error=sent.get("error"),
        transaction=dict(found["transaction"]) if found.get("transaction") else None,
        seen=[
            Sight(
                by=poll["consumer_id"],
                isolation=poll.get("isolation"),
                offset=poll.get("offset"),
                at=_when(poll.get("polled_at")),
            )
            for poll in polls
        ],
    )


def _when(value: object) -> datetime | None:
    return value if isinstance(value, datetime) else None
