"""What was ever found and still counts, by cluster: the numbers that the page's sentences rest on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, and_, cast, func, or_, select

from canary.anomalies.policy import LOSSES
from storage.store.models import ViolationRow
from storage.store.values import Standing

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

_BY = ("cluster", "kind", "severity", "mode", "state", "reason")


def standing(connection: Connection) -> list[Standing]:
    """Return how many records count, grouped; those of false alarms and of conditions that are over do not."""
    by = [getattr(ViolationRow, name) for name in _BY]
    unsettled = or_(ViolationRow.reason.is_(None), ViolationRow.reason.not_in(("false", "ended")))
    records = cast(func.sum(ViolationRow.record_count), BigInteger)
    rows = connection.execute(
        select(*by, records, func.min(ViolationRow.first_seen_ns), func.max(ViolationRow.first_seen_ns))
        .where(or_(unsettled, loss()))
        .group_by(*by)
        .order_by(*by)
    )
    return [_standing(row) for row in rows]


def _standing(row: Any) -> Standing:
    return Standing(*row)


def loss() -> ColumnElement[bool]:
    """Return what is true of a confirmed loss, whatever became of it since: retention keeps it."""
    lost = or_(ViolationRow.kind.in_(sorted(LOSSES)), ViolationRow.reason == "lost")
    return and_(lost, or_(ViolationRow.reason.is_(None), ViolationRow.reason != "false"))
