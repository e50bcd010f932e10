"""What the bodies and parameters of several resources share. Times are RFC 3339 in UTC."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Generic, Literal, TypeVar

from fastapi import Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

T = TypeVar("T")

LATEST_NS = 2**63 - 1
"""The latest time that can be stored (2262); the earliest is its negative (1677)."""


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment(ns: int) -> datetime:
    """Return the moment ``ns`` after the epoch, exact to the microsecond."""
    return datetime.fromtimestamp(ns // 1_000_000_000, UTC).replace(microsecond=ns % 1_000_000_000 // 1000)


Moment = Annotated[
    datetime,
    BeforeValidator(lambda value: moment(value) if isinstance(value, int) else value),
    PlainSerializer(_rfc3339, return_type=str, when_used="json"),
]
"""A time; made from ns since the epoch, too."""
ViolationState = Literal["open", "acknowledged", "resolved"]

ClusterName = Annotated[str | None, Query(max_length=249)]
TopicName = Annotated[str | None, Query(max_length=249)]
Partition = Annotated[int | None, Query(ge=0, lt=2**31)]
Cursor = Annotated[str | None, Query(max_length=500, description="next_cursor of the page before.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="At most so many items.")]


@lru_cache(maxsize=4096)
def rfc3339(ns: int) -> str:
    """Return the moment ``ns`` after the epoch as every answer writes it (milliseconds, Z)."""
    return _rfc3339(moment(ns))


def clock(ns: int, near_ns: int | None) -> str:
    """Return the time of day (UTC), with its date where that is not the date of ``near_ns``."""
    at = moment(ns)
    same = near_ns is not None and moment(near_ns).date() == at.date()
    return at.strftime("%H:%M:%S" if same else "%Y-%m-%d %H:%M:%S")


def moment_or_none(ns: int | None) -> datetime | None:
    """Return the moment, or None for None."""
    return None if ns is None else moment(ns)


def nanoseconds(when: datetime | None) -> int | None:
    """Return ns since the epoch, at most what 63 bits hold (1678 to 2262); a time without an offset is UTC."""
    if when is None:
        return None
    since = (when if when.tzinfo else when.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    exact = (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1000
    return max(-LATEST_NS, min(exact, LATEST_NS))


class Shape(BaseModel):
    """A body, also made from a stored value's attributes; an unknown key in JSON is an error."""

    model_config = ConfigDict(extra="forbid", from_attributes=True, populate_by_name=True)


class Listing(Shape, Generic[T]):
    """A page of a list."""

    items: list[T]
    next_cursor: str | None = Field(None, description="Give it back as ?cursor= for the next page; null at the end.")


class ProbeIdentity(Shape):
    """Who a probe is. Numbers of up to 63 bits."""

    producer_id: int
    generation: int
    partition: int
    sequence: int
