"""Topics that the settings watch, that the canary does not write to, and that are gone.

A topic that two answers in a row did not list may be one that a broker does not know of yet, or one that the canary may
not describe any more. So it is asked for by its name, ten seconds later; only the answer that there is no such topic
counts. Then a topic that the settings name is `watched-topic-gone`, and so are all topics of a pattern that vanish
together: metadata that was lost looks like that. A single topic of a pattern is `topic-deleted`, which is mere info.
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final

from canary import facts as f
from canary.anomalies.online.scope import Scope, Where
from canary.anomalies.online.topology.state import Known, Topology, Vanished
from canary.anomalies.policy import KAFKAS_OWN

_TOGETHER: Final = 2
"""So many topics of a pattern at least are more than one that was deleted."""
_NAMED: Final = 100


def records_of(top: Topology, name: str, known: Known) -> int | None:
    """Return how many records a topic's logs have, or had when it was gone, as far as its offsets are watched."""
    ends = [end for (topic, _), end in top.ends.items() if topic == name]
    return sum(max(end.end - end.start, 0) for end in ends) if ends else known.records


def not_listed(scope: Scope, name: str, known: Known) -> None:
    """A topic that was listed is not any more."""
    top = scope.state.topology
    known.records = records_of(top, name, known)
    if top.watched.has(name):
        top.vanished[name] = Vanished(scope.state.now_ns, known.topic_id or "", known.records, known.seen_ns)


def asked(scope: Scope, fact: f.WatchedGone) -> None:
    """Asked for by its name, the cluster has no such topic."""
    one = scope.state.topology.vanished.get(fact.topic)
    if one is not None:
        one.is_gone = True


def judge(scope: Scope) -> None:
    """Report the topics that are gone by the answers of a round; called at its end."""
    top = scope.state.topology
    gone = {name: one for name, one in top.vanished.items() if one.is_gone}
    for pattern in top.watched.patterns if gone else ():
        _whole(scope, pattern, gone)
    for name, one in gone.items():
        del top.vanished[name]
        named = name in top.watched.names
        held = "" if one.records is None else f": {one.records:,} records were in it"
        scope.report(
            "watched-topic-gone" if named else "topic-deleted",
            Where(name),
            f"topic {name}{', which the settings name under watch,' if named else ''} is gone{held}",
            evidence={"topic_id": one.topic_id, "records": one.records, "gone_since_ns": one.at_ns},
            by="watch",
            after_ns=one.seen_ns,
        )
        if named and (known := top.topics.get(name)) is not None:
            known.said_gone = True


def _whole(scope: Scope, pattern: str, gone: Mapping[str, Vanished]) -> None:
    """Report a pattern of which several topics are gone by one round's answers, and none is left."""
    top = scope.state.topology
    names = _matched(pattern, gone)
    left = _matched(pattern, (name for name, known in top.topics.items() if known.partitions and not known.ours))
    if len(names) < _TOGETHER or left:
        return
    scope.report(
        "watched-topic-gone",
        Where(pattern),
        f"all {len(names):,} topics that the pattern {pattern} under watch matched are gone",
        evidence={"topics": names[:_NAMED], "of": len(names), "gone_since_ns": min(gone[one].at_ns for one in names)},
        by="watch",
    )


def _matched(pattern: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if fnmatchcase(name, pattern) and name not in KAFKAS_OWN)
