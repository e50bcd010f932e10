"""Refuses clusters, topics, partitions and ids that do not exist, and says which do.

An empty list would read as "nothing is wrong there". What the sender of the request may not see does not exist for it.
"""

import difflib
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, Protocol, TypeVar

from api.knowledge.views import ClusterView
from api.problems import ProblemError
from api.state import Knowledge, State
from storage.store.values import TopologyFilter

T_co = TypeVar("T_co", covariant=True)

SHOWN = 20
"""At most so many names are in a refusal."""
_NEWEST = 200
"""The nearest of so many ids, the newest ones, is named."""


class _Rows(Protocol[T_co]):
    """A repository whose rows have an id."""

    def get(self, row_id: str, /) -> T_co | None: ...

    @property
    def page(self) -> Any: ...


async def find(state: State, rows: _Rows[T_co], what: str, row_id: str) -> T_co:
    """Return a row of the store.

    Raises:
        ProblemError: 404, with the nearest ids, or else the newest ones.
        UnavailableError: the store does not answer.
    """
    row = await state.calls(rows.get, row_id)
    if row is None:
        newest = await state.calls(lambda: [one.id for one in rows.page(limit=_NEWEST).items])
        near = _nearest(row_id, newest)
        which = f"the nearest: {', '.join(near)}" if near else f"the newest: {', '.join(newest[:SHOWN]) or 'none yet'}"
        raise ProblemError(404, f"There is no {what} with the id {row_id!r}; {which}.")
    return row


def find_cluster(knowledge: Knowledge, name: str) -> ClusterView:
    """Return a cluster.

    Raises:
        ProblemError: 404, with the names of those that exist.
    """
    view = knowledge.clusters.get(name)
    if view is None:
        raise ProblemError(404, f"No cluster is called {name!r}; there are: {named(name, knowledge.clusters)}.")
    return view


async def must_exist(state: State, cluster: str | None, topic: str | None = None, partition: int | None = None) -> None:
    """Refuse an unknown cluster, topic or partition (None: any). Called when an answer is empty.

    Known topics are those that runners probe or have ever watched. Before the first view none is refused.

    Raises:
        ProblemError: 404, with what exists.
        UnavailableError: the store does not answer.
    """
    knowledge = await state.knowledge()
    views = list(knowledge.clusters.values()) if cluster is None else [find_cluster(knowledge, cluster)]
    numbers: dict[str, set[int]] = defaultdict(set)
    for row in (row for view in views for row in view.partitions):
        numbers[row.topic].add(row.partition)
    if not numbers or (topic is None and partition is None):
        return
    if topic is not None and topic not in numbers:
        wanted = TopologyFilter(cluster=cluster, subject="partition", topic=topic)
        watched = await state.calls(state.store.topology.numbers, wanted)
        if not watched:
            raise ProblemError(404, f"No topic is called {topic!r}; these are probed: {named(topic, numbers)}.")
        numbers[topic] = watched
    here = set().union(*numbers.values()) if topic is None else numbers[topic]
    if partition is not None and partition not in here:
        which = "No topic has a" if topic is None else f"Topic {topic!r} has no"
        raise ProblemError(404, f"{which} partition {partition}; there are: {min(here)} to {max(here)}.")


def named(wanted: str, names: Collection[str]) -> str:
    """Return at most SHOWN of the names that there are, as a list in words; the nearest to ``wanted`` come first."""
    near = _nearest(wanted, sorted(names))
    shown = [*near, *(name for name in sorted(names) if name not in near)]
    more = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
    return f"{', '.join(shown[:SHOWN])}{more}" if shown else "none yet"


def _nearest(wanted: str, names: Sequence[str]) -> list[str]:
    """Return the names that begin as ``wanted`` does (at least 4 characters), or else those that are much like it."""
    begun = [name for name in names if len(wanted) >= 4 and name.startswith(wanted)]
    return (begun or difflib.get_close_matches(wanted[:249], names))[:SHOWN]
