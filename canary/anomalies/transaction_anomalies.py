"""Entries of the catalogue about transactions: what must never be seen, in part or at all, and dependency cycles."""

from __future__ import annotations

from canary.anomalies.anomaly import entry

TRANSACTION_ANOMALIES = (
    entry(
        "G1a",
        "Aborted read",
        ("critical",),
        "offline",
        "online",
        "spark",
        meaning="A read_committed consumer was given a message of a transaction or send that definitely failed.",
        implies="Consumers act on data that its writer believes was never written, and will probably write again.",
        do_first=(
            "Check that the failure was definite (an indefinite error must be filed as indeterminate), then "
            "the state of the transaction coordinator's partition and its markers."
        ),
        source="jepsen-redpanda 1.2, 3.7 and 3.9 (#3036); Adya, Liskov, O'Neil",
    ),
    entry(
        "precommitted-read",
        "Read before commit",
        ("critical",),
        "offline",
        "online",
        meaning="A message was delivered before its transaction was asked to commit.",
        implies="read_committed does not isolate: consumers act on data that may still be aborted.",
        do_first="Check the consumer's isolation.level as the broker sees it, and the last stable offset it reports.",
        source="jepsen-redpanda 3.9",
    ),
    entry(
        "fractured-transaction",
        "Transaction seen in part",
        ("critical",),
        "online",
        "spark",
        meaning="A transaction is proven committed, and one of its writes is not found where readers have passed.",
        implies="All-or-nothing does not hold: some partitions have the transaction's effects and some have not.",
        do_first="Treat the missing write as lost-write, and look at the markers of that producer in each partition.",
        source="jepsen-redpanda 1.2 (atomicity)",
    ),
    entry(
        "zombie-write",
        "Write of a fenced producer",
        ("critical", "info"),
        "online",
        meaning="A transactional producer's older generation appended after it was fenced, and readers saw it.",
        implies="Two instances can write as the same producer: exactly-once processing is void.",
        do_first="Find the old instance; check transactional.id reuse and the coordinator's producer epochs.",
        source="idempotent-producer (fencing); jepsen-redpanda 1.3",
        allowed="Plain in-flight batches that land after a crash (info).",
    ),
    entry(
        "G0",
        "Write cycle",
        ("info",),
        "offline",
        "spark",
        meaning="Transactions' writes interleave: each wrote before the other in some partition.",
        implies="Transactions are not isolated from each other's writes; readers see them mixed.",
        do_first="Nothing: know that Kafka's transactions give atomicity, not isolation of writes.",
        source="jepsen-redpanda 3.8 (#8); Adya, Liskov, O'Neil",
        allowed="Always: Kafka appends a transaction's writes as they come.",
    ),
    entry(
        "G1c",
        "Circular information flow",
        ("warning", "info"),
        "offline",
        "spark",
        meaning="Transactions depend on each other in a circle in which at least one read what another wrote.",
        implies="A transaction saw effects of one that (in another partition) comes after it.",
        do_first=(
            "Read the edges: if each is a read (wr) it is a real violation; with write order (ww) in it, interleaving "
            "explains it."
        ),
        source="jepsen-redpanda 3.9 (#3036); Adya, Liskov, O'Neil",
        allowed="With write-write dependencies (--ww-deps): interleaved writes make such circles.",
    ),
)
