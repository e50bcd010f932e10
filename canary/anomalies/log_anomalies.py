"""Entries of the catalogue about the log: which message stands where, and whether it stays."""

from __future__ import annotations

from canary.anomalies.anomaly import entry

LOG_ANOMALIES = (
    entry(
        "lost-write",
        "Lost write",
        ("critical", "warning"),
        "offline",
        "online",
        "spark",
        meaning="The cluster acknowledged a write, readers went past its place, and the message is not there.",
        implies=(
            "Data that the cluster promised to keep is gone; other topics whose partitions had the same leader at that "
            "time have probably lost messages too."
        ),
        do_first=(
            "Do not restart, reassign or clean up anything: copies may survive on brokers outside the ISR. Read the "
            "violation's exposure to learn which partitions shared the leader, keep the brokers' data directories, and "
            "find out which brokers left and joined the ISR around the acknowledgement."
        ),
        source="jepsen-redpanda 2.2 and 3.6 (#6); call-me-maybe-kafka; why-fsync",
    ),
    entry(
        "unseen",
        "Acknowledged, not seen",
        ("info", "warning", "critical"),
        "offline",
        "online",
        meaning="An acknowledged write has not been delivered to any consumer so far.",
        implies="Delay as long as readers are behind; after final reads by fresh clients it means loss.",
        do_first=(
            "See whether the consumer's position moves and whether an open transaction holds back the last stable "
            "offset; if the position stands still, look at the partition's leader."
        ),
        source="jepsen-redpanda 2.2 and 3.6",
        allowed="While readers catch up: a consumer may be arbitrarily far behind.",
    ),
    entry(
        "duplicate",
        "Duplicate write",
        ("critical", "warning"),
        "offline",
        "online",
        "spark",
        meaning="One message stands at two or more offsets of one log.",
        implies="Consumers process it more than once, though the idempotent producer promised exactly one copy.",
        do_first=(
            "Look at the evidence for a leader change or an OUT_OF_ORDER_SEQUENCE_NUMBER between the two offsets, and "
            "check the client's and brokers' versions against known deduplication bugs."
        ),
        source="idempotent-producer; jepsen-redpanda 3.1 and 3.2 (#3039); librdkafka issue 4953",
        allowed=(
            "Without idempotence: a retry may append again (warning). Where the client took a new producer epoch while "
            "the message was in flight, and sent it again: no broker can know that for a copy (warning)."
        ),
    ),
    entry(
        "inconsistent-offsets",
        "Two messages at one offset",
        ("critical", "warning"),
        "offline",
        "online",
        "spark",
        meaning="Two different messages were reported at the same offset of one log.",
        implies=(
            "The log was rewritten, or two leaders answered at once: committed offsets of consumer groups no longer "
            "point to what was processed."
        ),
        do_first=(
            "Compare the partition's log on every replica around that offset before anything is compacted or deleted, "
            "and look at leader epochs: two brokers acted as leader."
        ),
        source="jepsen-redpanda 2.2 and 3.5 (#3003); distributed-consensus-reloaded",
    ),
    entry(
        "poll-skip",
        "A poll skipped messages",
        ("warning", "critical"),
        "offline",
        "online",
        meaning="Two consecutive polls of one consumer, without a seek between them, jumped over known messages.",
        implies="The consumer never processes the skipped messages, though they are in the log.",
        do_first=(
            "Check whether a re-read finds the skipped offsets: if it does not, treat it as lost-write; if it does, "
            "look for a reset of the consumer's position or a fetch answered by a lagging replica."
        ),
        source="jepsen-redpanda 2.2 and 3.6",
        allowed="Across a rebalance of a subscribed consumer.",
    ),
    entry(
        "nonmonotonic-poll",
        "A poll went back",
        ("warning", "critical"),
        "offline",
        "online",
        meaning="A consumer was given, without a seek, a message at or before the one it had been given last.",
        implies="Messages are processed twice, or the log under the consumer was rewritten.",
        do_first="Look for a truncation or inconsistent offsets on the same partition; those are the cause then.",
        source="jepsen-redpanda 2.2 and 3.10",
        allowed="Across a rebalance of a subscribed consumer.",
    ),
    entry(
        "int-poll-skip",
        "Skipped messages within one operation",
        ("warning", "critical"),
        "offline",
        "online",
        meaning="Within one poll or transaction, consecutive messages of a partition jump over known messages.",
        implies="The consumer never processes the skipped messages, though they are in the log.",
        do_first="As for poll-skip: re-read the skipped offsets, then look at the fetch path of that leader.",
        source="jepsen-redpanda 2.2",
        allowed="For a partition that was rebalanced during the operation.",
    ),
    entry(
        "int-nonmonotonic-poll",
        "Went back within one operation",
        ("warning", "critical"),
        "offline",
        "online",
        meaning="Within one poll or transaction, a message stands at or before the one delivered just before it.",
        implies="Messages are processed twice within one transaction, or the log's order changed under the reader.",
        do_first="Look for inconsistent offsets or duplicates at the same place; then for the client's version.",
        source="jepsen-redpanda 2.2 and 3.10",
        allowed="For a partition that was rebalanced during the operation.",
    ),
    entry(
        "nonmonotonic-send",
        "A send landed before an earlier one",
        ("warning", "critical"),
        "offline",
        "online",
        meaning="A producer's later operation was put at a lower offset than its earlier one in the same partition.",
        implies="The order in which one producer wrote is not the order in which consumers process.",
        do_first="See whether the log's end went back between the two acknowledgements (truncation is the cause then).",
        source="jepsen-redpanda 2.2; idempotent-producer (pipelining)",
    ),
    entry(
        "int-nonmonotonic-send",
        "Sends out of order within one operation",
        ("warning", "critical"),
        "offline",
        "online",
        meaning="Within one operation, a later send to a partition was put at a lower offset than an earlier one.",
        implies="The order within one transaction is not kept.",
        do_first="Check max.in.flight.requests and idempotence of the producer, then the leader's log.",
        source="jepsen-redpanda 2.2; idempotent-producer (pipelining)",
    ),
    entry(
        "int-send-skip",
        "Other messages between an operation's sends",
        ("info",),
        "offline",
        meaning="Between two consecutive sends of one operation, messages of others stand in the log.",
        implies="Nothing is wrong with the data: writes of transactions interleave in Kafka.",
        do_first="Nothing.",
        source="jepsen-redpanda 3.8",
        allowed="Always: Kafka does not isolate writes of transactions from each other.",
    ),
    entry(
        "reorder",
        "Order of sequence is not order of offset",
        ("warning", "critical"),
        "online",
        "spark",
        meaning="A producer's probes stand in a partition in another order than that of their sequence numbers.",
        implies="Consumers process one producer's messages in an order that it did not write.",
        do_first="Look for a leader change between the two, and check the brokers' handling of producer sequences.",
        source="idempotent-producer (pipelining); jepsen-redpanda 3.5",
    ),
    entry(
        "corrupt",
        "Corrupt record",
        ("critical",),
        "online",
        "spark",
        meaning="A record that bears our mark was altered or cut short: its checksum or its shape is wrong.",
        implies="What a broker stored or served is not what was sent to it, and the record's CRC did not tell.",
        do_first=(
            "Find the replicas of the partition and compare the record on each; look at disks, memory and network "
            "of the leader. Take the broker that differs out of service."
        ),
        source="why-fsync (storage that lies); ANOMALIES Part II",
    ),
    entry(
        "phantom",
        "A message nobody sent",
        ("critical",),
        "offline",
        "online",
        "spark",
        meaning="A consumer was given a message that no producer sent.",
        implies="The log holds invented or misplaced data, or the record of what was sent is incomplete.",
        do_first="Make sure that no ledger or history was cut; then compare the record on every replica.",
        source="ANOMALIES Part I rule 12; jepsen tests/kafka.clj (no writer of a polled value)",
    ),
    entry(
        "truncation",
        "Log truncated",
        ("critical", "warning"),
        "online",
        "watch",
        meaning="The end of the log went below what a consumer had read or an acknowledgement had promised.",
        implies="Every message at or above the new end is lost; consumers that had read them saw what never was.",
        do_first=(
            "Do not let the old leader rejoin: it will cut its copy too. Keep its data directory, and take the range "
            "from there."
        ),
        source="call-me-maybe-kafka; why-fsync; distributed-consensus-reloaded",
    ),
    entry(
        "offset-regression",
        "End of a watched log went back",
        ("critical",),
        "watch",
        "online",
        meaning="The end offset of a watched topic went backwards at a leader epoch that is not older.",
        implies="Messages of that topic were lost; it is not the canary's own topic, so their content is not known.",
        do_first="As for truncation: keep the former leader's data directory, and do not let it rejoin.",
        source="call-me-maybe-kafka; why-fsync",
    ),
    entry(
        "early-expiry",
        "Expired before its time",
        ("critical",),
        "online",
        "spark",
        meaning="The start of the log passed promised records that the retention in force does not explain.",
        implies="Data was deleted that should have been kept.",
        do_first="Look for DeleteRecords calls, changed retention settings and clock jumps on the brokers.",
        source="RECONCILIATION 4; ARCHITECTURE decision 8",
        allowed="DeleteRecords announced in a maintenance window.",
    ),
)
