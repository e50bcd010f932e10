"""Another cluster answers at the known cluster's address: judging stops until a process finds the known one again.

The cluster's id is asked for once a round, so clients may have met the other cluster up to a round earlier. Everything
that rests on acknowledgements and positions since the known cluster's last answer is taken back: an acknowledgement
that no read proves promises nothing, consumers return to their positions of that answer, and later suspicions are read
again. A record that was read bears the known cluster's tag, and needs no other proof.
"""

from canary.anomalies.online.log import Log
from canary.anomalies.online.scope import Scope
from canary.anomalies.online.state import Ask, Topic
from canary.anomalies.online.stream import Stream
from canary.anomalies.violation import Violation

_UNSURE_KEPT = 10_000


def another_cluster(known: str, found: str, at_ns: int) -> Violation:
    """Return the violation of an address that led to cluster ``known`` and leads to cluster ``found``."""
    return Violation(
        kind="another-cluster",
        severity="critical",
        at_ns=at_ns,
        by="watch",
        summary=f"the address leads to cluster {found}, and what is known here is of cluster {known}: "
        "give it another name in the settings, or put the address right. Probing goes on when the known one answers",
        evidence={"known": known, "found": found},
    )


def acknowledged(scope: Scope, topic: Topic, stream: Stream, sequence: int, n: int, offset: int | None) -> None:
    """Remember acknowledgements until the known cluster answers again; consecutive ones as one."""
    state, place = scope.state, -1 if offset is None else offset
    if state.unsure and offset is not None:
        ordinal, *stands, first, count, at = state.unsure[-1]
        begun = next((ask.ordinal for ask in reversed(state.asks.values())), 0)
        if ordinal > begun and (*stands, first + count, at + count) == (topic.name, stream.tag, sequence, place):
            state.unsure[-1][0], state.unsure[-1][4] = state.ordinal, count + n
            return
    state.unsure.append([state.ordinal, topic.name, stream.tag, sequence, n, place])


def positions(scope: Scope) -> dict[str, dict[int, dict[str, int]]]:
    """Return topic to partition to consumer to its position, and forget the oldest unsure acknowledgements."""
    del scope.state.unsure[:-_UNSURE_KEPT]
    return {
        name: {p: {who: reader.position for who, reader in log.readers.items()} for p, log in topic.logs.items()}
        for name, topic in scope.state.topics.items()
    }


def known_one_answered(scope: Scope, sample: int) -> None:
    """The known cluster answered a round: everything before that round is its own."""
    state = scope.state
    asked = state.asks.get(sample)
    if asked is not None:
        state.sure = asked
        state.unsure = [one for one in state.unsure if one[0] > asked.ordinal]


def stop(scope: Scope, found: str) -> None:
    """Report it, take back what may come from the other cluster, and judge nothing until the next start."""
    state = scope.state
    violation = another_cluster(state.cluster_id or "", found, state.now_ns)
    state.stopped = scope.found.stopped = violation.summary
    scope.emit(violation)
    for _, name, tag, sequence, n, offset in state.unsure:
        topic = state.topics[name]
        _promises_nothing(topic, topic.streams[tag], sequence, sequence + n, offset)
    state.unsure.clear()
    for topic in state.topics.values():
        topic.fresh = False
        for log in topic.logs.values():
            _take_back(topic, log, state.sure)


def _promises_nothing(topic: Topic, stream: Stream, a: int, b: int, offset: int) -> None:
    log = topic.logs[stream.partition]
    for x, y in stream.seen.without(a, b):
        topic.promises -= sum(q - p for p, q in stream.promised.within(x, y))
        known = (stream.acked, stream.promised, stream.unplaced, *stream.unseen.values(), *stream.early.values())
        for sequences in known:
            sequences.remove(x, y)
        stream.places.remove(x, y)
        stream.indeterminate.add(x, y)
        for run in log.claims.aligned(offset + x - a, offset + y - a, a - offset, stream.tag) if offset >= 0 else ():
            log.claims.remove(run.key, run.end)
            log.promised.remove(run.key, run.end)


def _take_back(topic: Topic, log: Log, sure: Ask | None) -> None:
    ordinal, at_ns = (sure.ordinal, sure.at_ns) if sure is not None else (0, 0)
    for key in [key for key, held in log.held.items() if held.ordinal >= ordinal]:
        log.let_go(key)
    if log.cut is not None and log.cut["at_ns"] >= at_ns:
        log.cut = None
    log.groups.clear()
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
