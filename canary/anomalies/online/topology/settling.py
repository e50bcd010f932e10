"""Settling: an outage is over when the place works again and its log is known to be whole.

So nobody is told that an outage is over a moment before being told what it has taken.
"""

from canary.anomalies.online.log import Log

_LONG_NS = 60 * 10**9
"""What is not known to be whole for so long, though it works, is over, too: by itself no outage stays open for ever."""


def is_settled(log: Log, since_ns: int, for_ns: int) -> bool:
    """Return whether the end of an outage may be told: its log is whole, or that is not known for long.

    It is whole if an answer that was asked for after ``since_ns`` had all that was promised, and nothing is in doubt or
    held. ``for_ns``: for how long the place works again; less than 0 where the clock was set back meanwhile.
    """
    is_whole = log.whole.known_ns > since_ns and not (log.busy or log.held)
    return is_whole or not 0 <= for_ns < _LONG_NS
