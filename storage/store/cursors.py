"""Pages of a list, newest first, with an opaque cursor that stays valid while rows are added."""

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Generic, TypeVar

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


@dataclass(frozen=True, slots=True)
class Excerpt(Generic[T]):
    """The first items of a list in its order, of ``total`` that there are (None: more than are counted)."""

    items: list[T]
    total: int | None

    @property
    def truncated(self) -> bool:
        """Whether the list has more."""
        return self.total is None or self.total > len(self.items)

    def __add__(self, other: "Excerpt[T]") -> "Excerpt[T]":
        """Return both lists as one."""
        total = None if self.total is None or other.total is None else self.total + other.total
        return Excerpt([*self.items, *other.items], total)

    def words(self, first: str, what: str) -> str:
        """Return what the list is: "the largest 20 of 10,000 ranges", or "20 ranges" if it is whole."""
        if self.total == len(self.items):
            return f"{self.total:,} {what}"
        shown = f"the {first} {len(self.items):,}"
        return f"{shown} {what} of more than are counted" if self.total is None else f"{shown} of {self.total:,} {what}"


def encode(at_ns: int, row_id: str) -> str:
    """Return the cursor of what comes after a row."""
    return base64.urlsafe_b64encode(json.dumps([at_ns, row_id]).encode()).decode().rstrip("=")


def decode(cursor: str) -> tuple[int, str]:
    """Return what ``encode`` was given.

    Raises:
        BadCursorError: ``encode`` did not make it.
    """
    try:
        at_ns, row_id = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError, TypeError):
        raise BadCursorError from None
    if not isinstance(at_ns, int) or not isinstance(row_id, str) or abs(at_ns) >= 2**63:
        raise BadCursorError
    return at_ns, row_id
