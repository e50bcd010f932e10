"""What there is to digest: the topics that are wanted, and what is known of them from the run before.

What is known is not forgotten on one answer's word: a topic that is not listed may be hidden, by a broker that does not
know it yet or by a right that was taken. If it comes back, it is compared with what it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from canary.watching.selection import Selection
from spark_reconcile.digests.keeping import Tree
from spark_reconcile.digests.reading import Place
from spark_reconcile.dump.kafka_bounds import Cluster, Topic

ABSENT_NS: Final = 7 * 86_400 * 10**9
"""So long is kept what is known of a topic that is not there. Without ids it is not: who comes back is unknown."""
_INTERNAL: Final = "__"


def topics_of(cluster: Cluster, wanted: Sequence[str], known: Iterable[str]) -> tuple[list[Topic], list[str]]:
    """Return the topics that names or patterns choose, and those of the names that no topic has.

    ``known`` topics that are chosen are asked for also if they are not listed.

    Raises:
        UnreachableError: the cluster does not answer, or refuses to describe one of them.
    """
    chosen = Selection(wanted)
    listed = (name for name in cluster.names() if not name.startswith(_INTERNAL) and chosen.topic(name))
    names = sorted({*listed, *chosen.literal, *filter(chosen.topic, known)})
    topics = cluster.topics(names) if names else []
    return topics, sorted(chosen.literal - {topic.name for topic in topics})


@dataclass(slots=True)
class Known:
    """What is known of the topics that are there, of those that are ``absent`` for now, and what there is to say."""

    trees: dict[Place, Tree] = field(default_factory=dict)
    absent: dict[Place, Tree] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def known_of(before: Mapping[Place, Tree], wanted: Sequence[str], topics: Mapping[str, Topic], at_ns: int) -> Known:
    """Return what is still known of the ``topics`` that are ``wanted``."""
    chosen, known = Selection(wanted), Known()
    notes: dict[str, None] = {}
    anew = {tree.topic for tree in before.values() if _made_anew(tree, topics.get(tree.topic))}
    for place, tree in before.items():
        name = tree.topic
        if name in anew:
            notes[f"topic {name} was deleted and made anew: what was known of the one before is forgotten"] = None
        elif name in topics:
            topic_id = topics[name].topic_id or tree.topic_id
            known.trees[place] = replace(tree, topic_id=topic_id, absent_ns=None)
        elif chosen.topic(name):
            since_ns = tree.absent_ns or at_ns
            if tree.topic_id is None or at_ns - since_ns > ABSENT_NS:
                notes[f"topic {name} is gone: what was known of it is forgotten"] = None
            else:
                known.absent[place] = replace(tree, absent_ns=since_ns)
                until = datetime.fromtimestamp((since_ns + ABSENT_NS) / 1e9, UTC).date()
                notes[f"topic {name} is not there: until {until} it is compared with what it was if it comes back"] = (
                    None
                )
    known.notes = list(notes)
    return known


def _made_anew(tree: Tree, topic: Topic | None) -> bool:
    """Return whether a topic is another one than that of a tree; without ids, if it has fewer partitions."""
    if topic is None:
        return False
    if topic.topic_id is None or tree.topic_id is None:
        return tree.partition >= topic.partitions
    return topic.topic_id != tree.topic_id
