"""What one round of questions about groups was told."""

from collections.abc import Mapping
from dataclasses import dataclass, field

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True)
class Log:
    """A partition's first offset, end (exclusive) and last stable offset; None: not known."""

    start: int
    end: int
    stable: int | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """What a group has committed in a partition; ``leader_epoch`` None: whoever committed it did not know it."""

    offset: int
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """One group: how many members it has, and what it has committed.

    ``simple``: it never had members, its application assigns partitions itself. ``error``: why nothing else is known.
    """

    members: int = 0
    commits: Mapping[Place, Commit] = field(default_factory=dict)
    simple: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """All of it, at ``at_ns``. The logs were asked for after the commits: no commit is beyond a log because of that.

    ``topics`` are the topics that exist, with their ids (None where the cluster has none). ``whole``: a group that is
    not among ``groups`` is gone.
    """

    at_ns: int
    groups: Mapping[str, Told]
    logs: Mapping[Place, Log]
    topics: Mapping[str, str | None]
    whole: bool = True
