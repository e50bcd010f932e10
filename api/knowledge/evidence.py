"""Which faults the cluster has been through while it was probed.

Losses come in blocks, when leaders change. So ten million probes without a loss in a week without an election prove
less than ten thousand with five elections.
"""

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from storage.store.values import TopologySpan


class Survived(NamedTuple):
    """How often leaders changed, brokers came back and ISRs shrank below their replicas, since the timeline began.

    ``older``: there are timelines of which only the newest states were counted.
    """

    elections: int = 0
    restarts: int = 0
    isr_dips: int = 0
    older: int = 0


def survived(spans: Iterable[TopologySpan], topics: frozenset[str]) -> Survived:
    """Return the faults of one cluster's brokers and probed ``topics``; ``spans`` in any order."""
    places: dict[tuple[str, str, int], list[TopologySpan]] = defaultdict(list)
    for span in spans:
        if span.subject == "broker" or (span.subject == "partition" and span.topic in topics):
            places[span.subject, span.topic, span.number].append(span)
    elections = restarts = dips = 0
    for (subject, _, _), members in places.items():
        members.sort(key=lambda span: span.at_ns)
        if subject == "broker":
            there = [bool(span.detail) for span in members]
            restarts += list(pairwise(there)).count((False, True))
        else:
            leaders = [span.leader for span in members if span.led]
            elections += sum(before != after for before, after in pairwise(leaders))
            full = [len(span.isr) >= len(span.replicas) for span in members]
            dips += list(pairwise(full)).count((True, False))
    return Survived(elections, restarts, dips)
