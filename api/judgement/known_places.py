"""Refuses clusters, topics and partitions that do not exist: an empty list would read as "nothing is wrong there"."""

from collections import defaultdict
from collections.abc import Collection

from api.knowledge.views import ClusterView
from api.problems import ProblemError
from api.state import Knowledge, State
from storage.store.values import TopologyFilter

_MOST = 20_000
"""The most spans of a topic's timeline that are read for its partition numbers."""


def find_cluster(knowledge: Knowledge, name: str) -> ClusterView:
    """Return a cluster.

    Raises:
        ProblemError: 404, with the names of those that exist.
    """
    view = knowledge.clusters.get(name)
    if view is None:
        raise ProblemError(404, f"No cluster is called {name!r}; there are: {_named(knowledge.clusters)}.")
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
        watched = {span.number for span in await state.calls(state.store.topology.spans, wanted, _MOST)}
        if not watched:
            raise ProblemError(404, f"No topic is called {topic!r}; these are probed: {_named(numbers)}.")
        numbers[topic] = watched
    here = set().union(*numbers.values()) if topic is None else numbers[topic]
    if partition is not None and partition not in here:
        which = "No topic has a" if topic is None else f"Topic {topic!r} has no"
        raise ProblemError(404, f"{which} partition {partition}; there are: {min(here)} to {max(here)}.")


def _named(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "none yet"
