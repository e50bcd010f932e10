"""Consume, process, produce: exactly once from the main topic to a topic of its own."""

from dataclasses import dataclass

from canary.workloads.descriptor import Workload, Writing, count, duration


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings(Writing):
    """How large and how frequent transactions are, and when a rebalance meets one."""

    interval: float = duration(0.5, "Time between two transactions (duration).", gt=0)
    most: int = count(500, "Records of a transaction at most (count).", ge=1, le=100_000)
    rebalance_every: float | None = duration(
        None,
        "How often another member joins the relay's group while a transaction is open, which must abort. "
        "Left out: never, and partitions are assigned (duration).",
        gt=0,
    )
    timeout: float = duration(15.0, "transaction.timeout.ms (duration).", ge=1, le=900)


WORKLOAD = Workload(
    name="relay",
    number=3,
    source="idempotent",
    transactional=True,
    settings=RelaySettings,
    summary="Consume, process, produce: copies the main topic's probes to its own exactly once, offsets sent within "
    "the transaction.",
    does="takes the main topic's probes and writes each of them on, offsets sent with the transaction",
    finds="inputs taken twice or not at all; with `rebalance_every`, that a rebalance inside a transaction aborts it",
    costs="a consumer and a producer; one record for each main probe",
)
