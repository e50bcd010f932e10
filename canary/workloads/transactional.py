"""Transactions over several partitions."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from canary.workloads.descriptor import Workload, Writing, count, duration


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalSettings(Writing):
    """How large and how frequent transactions are, and how they end."""

    interval: float = duration(0.5, "Time between two transactions (duration).", gt=0)
    partitions: int = count(2, "Partitions that a transaction writes to at most (count).", ge=1, le=100)
    records: int = count(2, "Records of a transaction in each of its partitions (count).", ge=1, le=1000)
    abort_percent: int = count(10, "How many of 100 transactions are aborted on purpose (count).", ge=0, le=100)
    abandon_every: float = duration(
        600.0,
        "How often a transaction is left open until the coordinator's timeout ends it; readers of the mode's topic "
        "wait for that long (duration).",
        gt=0,
    )
    timeout: float = duration(15.0, "transaction.timeout.ms: after it the coordinator aborts (duration).", ge=1, le=30)
    most_ids: int = count(
        12, "Transactional ids at most; as many are used as it takes to probe every coordinator (count).", ge=1, le=200
    )

    def turn(self, number: int, partitions: Sequence[int]) -> tuple[list[int], bool]:
        """Return where transaction ``number`` writes, in order, and whether it is aborted on purpose.

        Both go round, so that what a partition holds repeats and is remembered as a pattern (canary.anomalies.online.
        sets.rows): neighbours take turns, and of 100 rounds ``abort_percent`` abort, each pair of neighbours in others
        than most others, so that every partition and every coordinator meets aborts.
        """
        size = min(self.partitions, len(partitions))
        turns = len(partitions) // gcd(len(partitions), size)
        chosen = sorted(partitions[(number * size + i) % len(partitions)] for i in range(size))
        round_, place = divmod(number, turns)
        return chosen, (round_ + place // 2) * self.abort_percent % 100 < self.abort_percent


WORKLOAD = Workload(
    name="transactional",
    number=2,
    transactional=True,
    abandons=True,
    settings=TransactionalSettings,
    summary="Transactions over several partitions: most are committed, some aborted and some abandoned on purpose.",
    does="a transaction over several partitions in each `interval`: most are committed, `abort_percent` are aborted, "
    "now and then one is left open",
    finds="aborted or uncommitted records that are shown, transactions that are committed in part, commits that are "
    "lost; every transaction coordinator is met",
    costs="a client for each coordinator and one more; about 7 records a second as it is set",
)
