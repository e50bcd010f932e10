"""Random reads: old records somewhere in the log are read now and then, as an application does that goes back.

The scrubber reads everything, and takes a while; a random read meets a closed segment, a cold cache or a remote tier
soon. It ends with an answer, or is counted as unanswered: nothing is concluded from that, and it is not asked again.
"""

from canary import facts as f
from canary.anomalies.online.losses.questions import Reread
from canary.anomalies.online.losses.requests import request
from canary.anomalies.online.meters import RandomReads, observe
from canary.anomalies.online.scope import Scope
from canary.anomalies.online.topology import liveness
from canary.anomalies.online.wanted import RANDOM


def asked(scope: Scope, fact: f.RandomReadAsked) -> None:
    """Some records from a place on are to be read again; never two such reads at once."""
    topic = scope.state.topics.get(fact.topic)
    log = topic.logs.get(fact.partition) if topic is not None else None
    if topic is None or log is None or topic.gone_since_ns is not None or not log.listed_ordinal:
        return
    logs = (one for known in scope.state.topics.values() for one in known.logs.values())
    if any(reread.reason == RANDOM for one in logs for reread in one.rereads.values()):
        return
    start = max(fact.start, log.start)
    end = min(start + fact.records, log.known_end)
    if log.stable is not None and (start < log.stable or liveness.hidden_from(scope, topic, log) is None):
        end = min(end, log.stable)  # an open transaction hides the rest, perhaps for ever
    if start < end:
        request(scope, topic, log, start, end, RANDOM)


def ended(scope: Scope, topic: str, reread: Reread, *, answered: bool) -> None:
    """A random read is over; what it was given, and what it lacked, is judged like that of any other."""
    found = scope.state.random_reads.setdefault(topic, RandomReads())
    if not answered:
        found.unanswered += 1
        return
    found.answered += 1
    observe(found.latency, (scope.state.now_ns - reread.asked_ns) / 1e9)
