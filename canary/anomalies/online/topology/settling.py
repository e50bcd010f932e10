"""Settling: an outage is over when the place works again and its log is known to be whole.

So nobody is told that an outage is over a moment before being told what it has taken.
"""

from canary.anomalies.online.log import Log

SETTLED_NS = 60 * 10**9
"""What is not known to be whole for so long, though it works, is over, too: by itself no outage stays open for ever."""


def is_whole_since(log: Log, at_ns: int) -> bool:
    """Return whether an answer that was asked for later had all that was promised, and nothing is in doubt or held."""
    return log.whole[0] > at_ns and not (log.busy or log.held)
