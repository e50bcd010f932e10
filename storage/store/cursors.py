"""Lists in pages: newest first, by an opaque cursor that stays right while rows are added."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sqlalchemy import ColumnElement, tuple_

from storage.store.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection, Select

T = TypeVar("T")
MAX_LIMIT = 1000


class BadCursorError(StoreError):
    """The cursor is none that a list gave out. Exit status 2."""

    def __init__(self) -> None:
        super().__init__("the cursor is not one that this list gave; begin again without a cursor", 2)


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some items of a list, and where the next ones are (None: these were the last)."""

    items: list[T]
    next_cursor: str | None


def read_page(
    connection: Connection,
    query: Select[Any],
    keys: tuple[Any, Any],
    *,
    cursor: str | None,
    limit: int,
    make: Callable[[Any], T],
) -> Page[T]:
    """Run ``query`` for one page, ordered by ``keys`` (ns and id), newest first.

    Args:
        connection: a reading transaction.
        query: what to select, with every filter.
        keys: the ORM columns of the time in ns and the id, which the rows have too.
        cursor: Page.next_cursor of the page before, or None.
        limit: how many items at most (1 to 1000).
        make: row to item.

    Raises:
        BadCursorError: the cursor is none of ours.
    """
    limit = max(1, min(limit, MAX_LIMIT))
    if cursor is not None:
        before: ColumnElement[bool] = tuple_(*keys) < tuple_(*_decode(cursor))
        query = query.where(before)
    rows = connection.execute(query.order_by(keys[0].desc(), keys[1].desc()).limit(limit + 1)).all()
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
