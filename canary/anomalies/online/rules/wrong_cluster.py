"""Another cluster answers at the known cluster's address: judging stops until a process finds the known one again.

Clients stay in the cluster that they met, so each new one may meet the other cluster while the old ones stay in the
known one. Whoever says first that it has met the other one, the watcher by a round or any client by ClusterMet, stops
the judging: it comes before the facts of that client, so that these are evidence for nothing else. And no re-read shows
that a record is absent unless its own client was in the known cluster to its end.

A client learns that it was moved shortly after it was, the watcher up to a round later. Everything that rests on
acknowledgements and positions since the known cluster's last answer is taken back: an acknowledgement that no read
proves promises nothing, consumers return to their positions of that answer, and later suspicions are read again. A
record that was read bears the known cluster's tag, and needs no other proof.
"""

from dataclasses import replace
from itertools import chain

from canary import facts as f
from canary.anomalies.online.log import Log
from canary.anomalies.online.scope import Scope
from canary.anomalies.online.sets.intervals import IntervalSet
from canary.anomalies.online.state import ASKS_KEPT, Ask, State, Topic
from canary.anomalies.online.stream import Stream
from canary.anomalies.violation import Violation


def another_cluster(known: str, found: str, at_ns: int, client: str = "watcher") -> Violation:
    """Return the violation of an address that led to cluster ``known`` and leads ``client`` to cluster ``found``."""
    return Violation(
        kind="another-cluster",
        severity="critical",
        at_ns=at_ns,
        by="watch",
        summary=f"the address leads to cluster {found}, and what is known here is of cluster {known}: "
        "give it another name in the settings, or put the address right. Probing goes on when the known one answers",
        evidence={"known": known, "found": found, "client": client},
    )


def met(scope: Scope, fact: f.ClusterMet) -> None:
    """A client has met a cluster: what it says from here on is of that one."""
    state = scope.state
    state.cluster_id = state.cluster_id or fact.cluster_id
    if fact.cluster_id != state.cluster_id:
        stop(scope, fact.cluster_id, fact.client)


def believed(scope: Scope, fact: f.RereadEnded) -> f.RereadEnded:
    """Return a re-read as it counts: one that the known cluster did not answer has read nothing.

    That another one answered is reported; of a client that was told no id nothing is known. A former release did not
    note the id.
    """
    if not is_elsewhere(scope, fact.cluster_id, f"reread-{fact.request_id}"):
        return fact
    return replace(fact, reached=fact.start, complete=False, error="not in the known cluster")


def is_elsewhere(scope: Scope, found: str | None, client: str) -> bool:
    """Whether a fact is not of the known cluster, as its own client was told (empty: of none); another is reported.

    A fact that names none (None) rests on no client's answer, or is of a former release.
    """
    known = scope.state.cluster_id
    if not known or found is None or found == known:
        return False
    if found and scope.state.stopped is None:
        stop(scope, found, client)
    return True


def acknowledged(state: State, stream: Stream, a: int, b: int) -> None:
    """Remember that the sequences [a, b) were acknowledged until the known cluster answers a round that is asked later.

    All of them are remembered, however many: by stream and round, so that those of one round are one interval. Rounds
    whose answers are not waited for any more are one.
    """
    asked = next((ask.ordinal for ask in reversed(state.asks.values())), 0)
    stream.unsure.setdefault(asked, IntervalSet()).add(a, b)
    if len(stream.unsure) > ASKS_KEPT + 1:
        oldest, second, *_ = stream.unsure
        for x, y in stream.unsure.pop(oldest):
            stream.unsure[second].add(x, y)


def former_version(state: State) -> None:
    """Take the unsure acknowledgements of a snapshot that kept them in one list."""
    for _, name, tag, sequence, n, _ in state.unsure:
        state.topics[name].streams[tag].unsure.setdefault(0, IntervalSet()).add(sequence, sequence + n)
    state.unsure.clear()


def positions(scope: Scope) -> dict[str, dict[int, dict[str, int]]]:
    """Return topic to partition to consumer to its position."""
    return {
        name: {p: {who: reader.position for who, reader in log.readers.items()} for p, log in topic.logs.items()}
        for name, topic in scope.state.topics.items()
    }


def known_one_answered(scope: Scope, sample: int) -> None:
    """The known cluster answered a round: everything before that round is its own."""
    asked = scope.state.asks.get(sample)
    if asked is None:
        return
    scope.state.sure = asked
    for topic in scope.state.topics.values():
        for stream in topic.streams:
            if stream.unsure:
                stream.unsure = {since: acked for since, acked in stream.unsure.items() if since >= asked.ordinal}


def stop(scope: Scope, found: str, client: str = "watcher") -> None:
    """Report it, take back what may come from the other cluster, and judge nothing until the next start."""
    state = scope.state
    violation = another_cluster(state.cluster_id or "", found, state.now_ns, client)
    state.stopped = scope.found.stopped = violation.summary
    scope.emit(violation)
    for topic in state.topics.values():
        topic.fresh = False
        for stream in topic.streams:
            for a, b in chain.from_iterable(stream.unsure.values()):
                _promises_nothing(topic, stream, a, b)
            stream.unsure.clear()
        for log in topic.logs.values():
            _take_back(topic, log, state.sure)


def _promises_nothing(topic: Topic, stream: Stream, a: int, b: int) -> None:
    log = topic.logs[stream.partition]
    for x, y in stream.seen.without(a, b):
        topic.promises -= sum(q - p for p, q in stream.promised.within(x, y))
        known = (stream.acked, stream.promised, stream.unplaced, *stream.unseen.values(), *stream.early.values())
        for sequences in known:
            sequences.remove(x, y)
        for placed in stream.places.within(x, y):
            offset, end = placed.value, placed.value + placed.length
            for run in log.claims.aligned(offset, end, placed.key - offset, stream.tag):
                log.claims.remove(run.key, run.end)
                log.promised.remove(run.key, run.end)
        stream.places.remove(x, y)
        stream.indeterminate.add(x, y)


def _take_back(topic: Topic, log: Log, sure: Ask | None) -> None:
    ordinal, at_ns = (sure.ordinal, sure.at_ns) if sure is not None else (0, 0)
    for key in [key for key, held in log.held.items() if held.ordinal >= ordinal]:
        log.let_go(key)
    if log.cut is not None and log.cut["at_ns"] >= at_ns:
        log.cut = None
    log.groups.clear()
    log.size = None
    stood = sure.positions.get(topic.name, {}).get(log.partition, {}) if sure is not None else {}
    for name, reader in log.readers.items():
        reader.position, reader.astray = stood.get(name, reader.began), False
    log.unplaced = [u for u in log.unplaced if u.sequence not in topic.streams[u.tag].indeterminate]
    for u in log.unplaced:
        u.state, u.request_id = "ask", None
    suspected, log.missing = log.missing, []
    for m in suspected:
        stream = topic.streams[m.tag]
        a, b = m.sequence, m.sequence + m.count
        if stream.indeterminate.covers(a, b) and not stream.seen.overlaps(a, b):
            continue  # no promise any more
        if m.at_ns >= at_ns or m.ordinal >= ordinal:
            m.why, m.state, m.request_id, m.tries = "reread", "ask", None, 0
        log.missing.append(m)
