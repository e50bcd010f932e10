"""Where a log begins: a listed start above promises is a question, and a fetch below it the answer.

What retention explains by age is expired, as it is listed. For the rest a fresh client fetches the last promise below
the listed start: if that is refused there, and right below the start, too, the log begins there. A broker that lists a
start that is too high serves what it says is gone.
"""

from typing import Final

from canary.anomalies.online import generations
from canary.anomalies.online.log import Log
from canary.anomalies.online.losses.questions import Reread
from canary.anomalies.online.losses.requests import request
from canary.anomalies.online.rules import retention
from canary.anomalies.online.scope import Scope
from canary.anomalies.online.state import Topic
from canary.anomalies.online.topology import clock
from canary.anomalies.online.wanted import START

_AGAIN_NS: Final = 10 * 10**9
"""Before that a start that a fetch has contradicted is not asked for again."""


def listed(scope: Scope, topic: Topic, log: Log, start: int) -> None:
    """The log is listed to begin at ``start``, above where it is known to, or above promises."""
    if retention.explains(scope, topic, log, start):
        _advance(scope, topic, log, start)
    elif not clock.lately(scope.state, log.denied_ns, _AGAIN_NS) and not _asked(log):
        last = log.promised.within(0, start)[-1][1] - 1
        request(scope, topic, log, last, last + 1, START)


def fetched(scope: Scope, topic: Topic, log: Log, reread: Reread) -> None:
    """A re-read by the present leader has ended: below ``reread.begins``, where that is set, it was refused."""
    if reread.begins is not None and (reread.begins > log.start or log.promised.overlaps(0, reread.begins)):
        _advance(scope, topic, log, reread.begins)
        if topic.configured_ns >= reread.asked_ns:  # the settings were read since the start had moved
            retention.settle_expiry(scope, topic, log)
    elif reread.reason == START and reread.delivered:
        log.denied_ns = scope.state.now_ns


def _asked(log: Log) -> bool:
    return any(reread.reason == START for reread in log.rereads.values())


def _advance(scope: Scope, topic: Topic, log: Log, start: int) -> None:
    retention.start_advanced(scope, topic, log, start)
    generations.reduce_expired(scope, topic, log)
