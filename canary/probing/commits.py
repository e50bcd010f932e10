"""What a group was promised while several of its commits were on their way.

librdkafka sends a commit again after a newer one when the group's coordinator moves: of twelve groups that committed
every 20 ms while the controller was frozen and resumed, most were acknowledged out of order, 545 before 526 (2.16.0,
Kafka 4.1.0). Whichever the coordinator applied last is where the group stands, and nobody tells which that was. So a
commit promises no more than the lowest of those that were on their way at the same moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(slots=True)
class _Commit:
    """One commit on its way: by partition, what it asks for and the lowest that may be applied after it."""

    member: str
    asked: dict[int, int]
    lowest: dict[int, int]


class Commits:
    """The commits of one group that have no outcome yet, in the order in which they were issued."""

    def __init__(self) -> None:
        self._waiting: list[_Commit] = []

    def waits(self, member: str) -> bool:
        """Return whether a commit of this member has no outcome yet."""
        return any(commit.member == member for commit in self._waiting)

    def issue(self, member: str, offsets: Mapping[int, int]) -> None:
        """Remember a commit that is about to be sent; ``offsets`` by partition."""
        new = _Commit(member, dict(offsets), dict(offsets))
        for other in self._waiting:
            for partition in new.asked.keys() & other.asked.keys():
                new.lowest[partition] = min(new.lowest[partition], other.asked[partition])
                other.lowest[partition] = min(other.lowest[partition], new.asked[partition])
        self._waiting.append(new)

    def resolve(self, member: str, offsets: Mapping[int, int]) -> dict[int, int]:
        """Forget the commit that asked for these offsets, whose outcome has come.

        Returns:
            By partition: where the group stands at least, if it was acknowledged.
        """
        for commit in self._waiting:
            if commit.member == member and commit.asked == offsets:
                self._waiting.remove(commit)
                return commit.lowest
        return dict(offsets)

    def forget(self, member: str) -> None:
        """Forget the commits of a member that has left: its client has waited for their outcomes."""
        self._waiting = [commit for commit in self._waiting if commit.member != member]
