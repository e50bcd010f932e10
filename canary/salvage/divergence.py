"""What of a log another log still has, told by leader epochs alone. Pure.

An epoch has one leader, and a leader writes each offset once: two replicas hold the same record at an offset exactly if
they hold it with the same epoch (KIP-101, KIP-279). For example

    directory  epoch 1: 0 to 99, epoch 2: 100 to 199
    cluster    epoch 1: 0 to 99, epoch 2: 100 to 149, epoch 3: 150 to 399

have epoch 2 in common up to 149: what the directory has from 150 on is gone from the cluster, though these offsets are
taken. The same holds where every replica was cut, and was written to again later.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

Fate = Literal["held", "expired", "gone"]


class Span(NamedTuple):
    """The offsets from ``start`` up to, and without, ``end`` were written in a leader epoch."""

    epoch: int
    start: int
    end: int


def spans(starts: Iterable[tuple[int, int]], end: int) -> tuple[Span, ...]:
    """Return the spans of epochs that begin at these (epoch, offset), in order; the last one ends at ``end``."""
    known = [*starts, (-1, end)]
    return tuple(Span(epoch, at, behind) for (epoch, at), (_, behind) in pairwise(known) if at < behind)


@dataclass(frozen=True, slots=True)
class Holdings:
    """What the cluster's log of a partition holds: offsets from ``start`` to ``end``, in ``spans`` by leader epoch."""

    start: int
    end: int
    spans: Sequence[Span]

    def fate(self, offset: int, epoch: int) -> Fate:
        """Tell what became of the record that was written at an offset in a leader epoch.

        Returns:
            "held": the cluster has it, or had it and has compacted it away. "expired": the cluster's log begins behind
            it, so nobody can tell whether it was there. "gone": the cluster does not have it; also below the start of
            its log, where the record's epoch is later than that of the first record there: epochs never go back.
        """
        if offset < self.start:
            return "gone" if self.spans and epoch > self.spans[0].epoch else "expired"
        covered = any(span.epoch == epoch and span.start <= offset < span.end for span in self.spans)
        return "held" if covered else "gone"

    def divided(self, span: Span) -> list[tuple[Fate, Span]]:
        """Return a span of another log in pieces, in order, each of one fate."""
        edges = {self.start, self.end, *(edge for own in self.spans for edge in own[1:])}
        cuts = [span.start, *sorted(edge for edge in edges if span.start < edge < span.end), span.end]
        found: list[tuple[Fate, Span]] = []
        for start, end in pairwise(cuts):
            fate = self.fate(start, span.epoch)
            if found and found[-1][0] == fate:
                start = found.pop()[1].start  # noqa: PLW2901  # the piece before goes on
            found.append((fate, Span(span.epoch, start, end)))
        return found
