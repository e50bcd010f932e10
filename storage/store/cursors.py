"""Pages of a list, newest first, with an opaque cursor that stays valid while rows are added."""

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Column, ColumnElement, Connection, Select, tuple_

from storage.store.errors import StoreError

T = TypeVar("T")
MAX_LIMIT = 1000


class BadCursorError(StoreError):
    """The cursor is not from a page of this list. Exit status 2."""

    def __init__(self) -> None:
        super().__init__("the cursor is not one that this list gave; begin again without a cursor", 2)


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some items of a list, and the cursor of the next page (None: this is the last)."""

    items: list[T]
    next_cursor: str | None


def read_page(
    connection: Connection,
    query: Select[Any],
    at: Column[Any],
    make: Callable[[Any], T],
    cursor: str | None,
    limit: int,
) -> Page[T]:
    """Return what ``make`` makes of ``limit`` (1 to 1000) rows of ``query``, newest first by ``at`` (ns) and id.

    Raises:
        BadCursorError: ``cursor`` is not from this list.
    """
    keys = at, at.table.c.id
    limit = max(1, min(limit, MAX_LIMIT))
    if cursor is not None:
        before: ColumnElement[bool] = tuple_(*keys) < tuple_(*_decode(cursor))
        query = query.where(before)
    rows = connection.execute(query.order_by(*(key.desc() for key in keys)).limit(limit + 1)).all()
    more = len(rows) > limit
    rows = rows[:limit]
    next_cursor = _encode(*(getattr(rows[-1], key.key) for key in keys)) if more else None
    return Page([make(row) for row in rows], next_cursor)


def _encode(at_ns: int, row_id: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([at_ns, row_id]).encode()).decode().rstrip("=")


def _decode(cursor: str) -> tuple[int, str]:
    try:
        at_ns, row_id = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError, TypeError):
        raise BadCursorError from None
    if not isinstance(at_ns, int) or not isinstance(row_id, str) or abs(at_ns) >= 2**63:
        raise BadCursorError
    return at_ns, row_id
