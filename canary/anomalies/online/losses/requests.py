"""Requests for re-reads: which ranges a fresh client is asked to read again."""

from canary.anomalies.online.log import READ_COMMITTED, READ_UNCOMMITTED, Log
from canary.anomalies.online.losses.questions import Missing, Reread, Wanted
from canary.anomalies.online.scope import Scope
from canary.anomalies.online.state import State, Topic
from canary.anomalies.online.topology import liveness, timeline
from canary.anomalies.online.wanted import BESIDE
from canary.anomalies.violation import RereadRequest

_URGENT_NS = 10 * 10**9
"""For so long the cluster is asked without a pause when something is in doubt."""
_URGENT_LOOKS = 5
_NEAR = 10_000
"""Places closer than this are asked for in one re-read."""


def ask(scope: Scope) -> None:
    """Turn what is missing or wanted into re-read requests; called after each stretch of facts."""
    for topic in scope.state.topics.values():
        if topic.gone_since_ns is not None:
            continue
        for log in topic.logs.values():
            if not log.listed_ordinal:
                continue  # it has not answered since the start, or is no longer probed
            if log.missing:
                _ask_missing(scope, topic, log)
            if log.unplaced:
                _ask_unplaced(scope, topic, log)
            wanted = log.wanted
            if wanted is not None and log.listed_ordinal >= wanted.not_before_ordinal and not _tail_asked(log):
                _ask_wanted(scope, topic, log, wanted)


def urgent(state: State) -> bool:
    """Say whether the next round of questions may settle what is missing or held since a moment ago."""
    return any(
        (log.regression is not None and log.regression.looks < _URGENT_LOOKS)
        or any(state.now_ns - one.at_ns < _URGENT_NS for one in log.missing)
        or any(state.now_ns - one.violation.at_ns < _URGENT_NS for one in log.held.values())
        for topic in state.topics.values()
        for log in topic.logs.values()
        if log.missing or log.held or log.regression is not None
    )


def _tail_asked(log: Log) -> bool:
    return any(reread.reason not in BESIDE for reread in log.rereads.values())


def request(
    scope: Scope, topic: Topic, log: Log, start: int, end: int, reason: str, *, to_the_end: bool = False
) -> int:
    """Ask for a fresh re-read of [start, end); returns its number.

    Where it reaches above a last stable offset that stands, read_uncommitted is asked for: a loss there would not be
    noticed until somebody ends the transaction. So it is for one that has to come ``to_the_end`` of the log.
    """
    state = scope.state
    if timeline.was_recreated(scope, topic.name):
        start, end = _with_neighbours(log, start, end)
    hidden = liveness.hidden_from(scope, topic, log)
    is_open = to_the_end or (hidden is not None and end > hidden)
    isolation = READ_UNCOMMITTED if is_open else READ_COMMITTED
    request_id = state.next_request
    state.next_request += 1
    expected = [list(run) for a, b in log.promised.within(start, end) for run in log.claims.within(a, b)]
    log.rereads[request_id] = Reread(start, end, reason, state.ordinal, expected, asked_ns=state.now_ns)
    scope.found.rereads.append(RereadRequest(request_id, topic.name, log.partition, isolation, start, end, reason))
    return request_id


def _with_neighbours(log: Log, start: int, end: int) -> tuple[int, int]:
    """Return the range with the promised records next to it, of a topic that was made again.

    One that is there shows that the answer is not of a leader that was cut off and still serves the deleted topic. The
    range does not reach above the last stable offset for it.
    """
    below = log.promised.within(max(start - _NEAR, log.start), start)
    highest = max(min(end + _NEAR, log.stable or 0), end)
    above = log.promised.within(end, highest)
    return below[-1][1] - 1 if below else start, above[0][0] + 1 if above else end


def _ask_wanted(scope: Scope, topic: Topic, log: Log, wanted: Wanted) -> None:
    """Ask for the range as far as an open transaction does not hide it; the rest waits for that."""
    start, end = max(wanted.start, log.start), wanted.end
    hiding = liveness.hiding(scope, topic, log)
    log.wanted = None
    if hiding is not None and hiding < end:
        log.wanted = Wanted(max(start, hiding), end, wanted.reason, log.listed_ordinal + 1)
        end = hiding
    hidden = liveness.hidden_from(scope, topic, log)
    middle = end if hidden is None else min(max(hidden, start), end)
    for a, b in ((start, middle), (middle, end)):
        if a < b:
            request(scope, topic, log, a, b, wanted.reason)


def _ask_missing(scope: Scope, topic: Topic, log: Log) -> None:
    waiting = sorted((m for m in log.missing if m.state == "ask"), key=lambda m: (m.cut, m.offset))
    waiting = [m for m in waiting if m.tries == 0 or log.listed_ordinal > m.ordinal]
    group: list[Missing] = []
    for missing in [*waiting, None]:
        if group and (missing is None or not _near(group[-1], missing)):
            end = max(m.offset + m.count for m in group)
            request_id = request(scope, topic, log, group[0].offset, end, "confirm", to_the_end=group[0].cut)
            for m in group:
                m.state, m.request_id = "asked", request_id
            group = []
        if missing is not None:
            group.append(missing)


def _near(last: Missing, missing: Missing) -> bool:
    """Whether one re-read answers for both."""
    return missing.cut == last.cut and missing.offset <= last.offset + last.count + _NEAR


def _ask_unplaced(scope: Scope, topic: Topic, log: Log) -> None:
    for unplaced in log.unplaced:
        if unplaced.state == "ask" and log.listed_ordinal >= unplaced.ordinal:
            start = max(unplaced.low, log.start)
            if start < unplaced.high:
                unplaced.request_id = request(scope, topic, log, start, unplaced.high, "confirm")
                unplaced.state = "asked"
            else:
                unplaced.state, unplaced.ordinal = "absent", scope.state.ordinal
