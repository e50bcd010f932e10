"""What expired needs no telling apart any more: one interval instead of one for each aborted transaction.

Aborted transactions break the runs of what is remembered of a stream, a few of them a minute for as long as it lives.
Once the log's start has passed their place, nobody can be given them; whoever is, is given a copy of what expired.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from canary.anomalies.online.state import Log, Stream, Topic


def forget(topic: Topic, log: Log) -> None:
    """Forget how sequences ended that stood below the log's start; called when that has moved."""
    for stream in topic.streams:
        if stream.partition == log.partition and (stream.failed or stream.indeterminate):
            _forget(stream)


def _forget(stream: Stream) -> None:
    """Of sequences before the first that is placed or waits for anything, keep only that they were."""
    waiting = (stream.open, stream.unplaced, *stream.unseen.values())
    firsts = [first for first in (one.first() for one in waiting) if first is not None]
    floor = min([*firsts, *stream.places.keys[:1], stream.next_sequence])
    known = [interval for one in (stream.acked, stream.seen) for interval in one.within(0, floor)]
    placed = [end for interval in known for _, end in stream.lost.without(*interval)]  # a lost one stood anywhere
    floor = max(placed, default=0)  # what is known of nobody's telling may stand above the start, and be read yet
    if floor <= (stream.failed.first() or 0) and floor <= (stream.indeterminate.first() or 0):
        return
    for were in (stream.acked, stream.promised, stream.seen):
        were.add(0, floor)
    for over in (stream.failed, stream.zombies, stream.indeterminate, stream.lost, *stream.early.values()):
        over.remove(0, floor)
    stream.transactions.remove(0, floor)
