"""GET probes/{producer}/{generation}/{partition}/{sequence} and log: what the probe log holds."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import Field

from api.judgement.known_places import must_exist
from api.problems import ProblemError, documented
from api.shapes import Limit, Listing, Moment, ProbeIdentity, Shape
from api.state import Shared
from canary.probe.identity import Identity

router = APIRouter(tags=["probes"], responses=documented(422, 503, 404))

Long = Annotated[int, Path(ge=0, lt=2**63)]
Int = Annotated[int, Path(ge=0, lt=2**31)]
_SENT = ("mode", "transaction_id", "sent_at", "outcome", "offset", "acked_at", "error")
"""What a life takes from the probe as it was sent."""
YOUNG = "Probes reach the probe log within a minute: of younger ones nothing is here yet."


class Sight(Shape):
    """A consumer received the probe."""

    by: str = Field(description="The consumer.")
    isolation: str | None = None
    offset: int | None = None
    at: Moment | None = None


class ProbeLife(Shape):
    """The life of one probe, as far as the probe log knows it."""

    cluster: str
    topic: str
    mode: str | None
    identity: ProbeIdentity
    transaction_id: int | None
    sent_at: Moment | None
    outcome: Literal["acked", "failed", "indeterminate"] | None
    offset: int | None
    acked_at: Moment | None
    error: str | None
    transaction: dict[str, Any] | None
    seen: list[Sight]


class LogItem(Shape):
    """An offset, the probe at it, and the consumers that saw it."""

    offset: int
    topic_id: str | None = Field(None, description="The incarnation of the topic.")
    identity: ProbeIdentity
    outcome: str | None
    seen_by: list[str]


@router.get("/probes/{producer}/{generation}/{partition}/{sequence}", summary="The life of one probe")
async def probe(state: Shared, producer: Long, generation: Int, partition: Int, sequence: Long) -> ProbeLife:
    """Return when a probe was sent, its outcome, its transaction, and the consumers that saw it."""
    identity = Identity(producer, generation, partition, sequence)
    found = await state.ask_log(None, None, lambda log: log.find(identity))
    if found is None:
        raise ProblemError(404, f"The probe log does not know this probe. {YOUNG}")
    return _life(identity, found)


@router.get("/log", summary="Offsets, the probes at them, and the consumers that saw them")
async def log(
    state: Shared,
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
    begin = max(start, min(int(cursor), 2**63 - 1)) if cursor else start
    rows = await state.ask_log(cluster, (), lambda log: log.between(cluster, topic, partition, begin, end, limit + 1))
    if not rows:
        await must_exist(state, cluster, topic, partition)
    shown, more = _whole_offsets([_item(row) for row in rows], limit)
    return Listing[LogItem](items=shown, next_cursor=None if more is None else str(more))


def _whole_offsets(items: list[LogItem], limit: int) -> tuple[list[LogItem], int | None]:
    """Return the page and the offset at which the next begins; two claims at one offset are on one page."""
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
        identity=ProbeIdentity(**{name: row[name] for name in Identity._fields}),
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
        identity=ProbeIdentity.model_validate(identity),
        **{name: sent.get(name) for name in _SENT},
        transaction=dict(found["transaction"]) if found.get("transaction") else None,
        seen=[
            Sight(
                by=poll["consumer_id"],
                isolation=poll.get("isolation"),
                offset=poll.get("offset"),
                at=poll.get("polled_at"),
            )
            for poll in polls
        ],
    )
