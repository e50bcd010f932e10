"""What a group was promised while several of its commits were in flight.

When the group's coordinator moves, librdkafka sends a commit again, also after a newer one. Of twelve groups that
committed every 20 ms while the controller was frozen and resumed, most were acknowledged out of order (2.16.0, Kafka
4.1.0):

    commit 526 sent · commit 545 sent · 545 acknowledged · 526 acknowledged

The group is now at 526 or at 545, depending on which one the coordinator applied last, and no answer tells which. So a
commit promises no more than the lowest of the commits that were in flight with it: here both promise 526.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from canary.threads import system


@dataclass(slots=True)
class _Commit:
    """One commit in flight: by partition, the offset it asks for, and the lowest that may be applied after it."""

    member: str
    asked: dict[int, int]
    lowest: dict[int, int]
    at_s: float


class Commits:
    """The commits of one group that have no outcome yet, in the order in which they were issued."""

    def __init__(self) -> None:
        self._waiting: list[_Commit] = []

    def waits(self, member: str) -> bool:
        """Return whether a commit of this member has no outcome yet."""
        return any(commit.member == member for commit in self._waiting)

    def issue(self, member: str, offsets: Mapping[int, int]) -> None:
        """Remember a commit that is about to be sent; ``offsets`` by partition."""
        new = _Commit(member, dict(offsets), dict(offsets), system.monotonic())
        for other in self._waiting:
            for partition in new.asked.keys() & other.asked.keys():
                new.lowest[partition] = min(new.lowest[partition], other.asked[partition])
                other.lowest[partition] = min(other.lowest[partition], new.asked[partition])
        self._waiting.append(new)

    def resolve(self, member: str, offsets: Mapping[int, int]) -> tuple[dict[int, int], float | None]:
        """Forget the commit that asked for these offsets, whose outcome has come.

        Returns, by partition, the offset that the group has at least, if the commit was acknowledged; and how long (s)
        its outcome took, None where that is not known.
        """
        for commit in self._waiting:
            if commit.member == member and commit.asked == offsets:
                self._waiting.remove(commit)
                return commit.lowest, system.monotonic() - commit.at_s
        return dict(offsets), None

    def forget(self, member: str) -> None:
        """Forget the commits of a member that has left: its client has waited for their outcomes."""
        self._waiting = [commit for commit in self._waiting if commit.member != member]
