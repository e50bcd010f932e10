"""Entries of the catalogue about applications: their consumer groups, transactions and records."""

from canary.anomalies.anomaly import Anomaly

APPLICATION_ANOMALIES = (
    Anomaly(
        name="group-stuck",
        title="A group commits nothing",
        severities=("warning",),
        scopes=("watch",),
        meaning="A consumer group that has members has committed nothing in a partition for `watch.group_stuck_after`, "
        "though records are added to it.",
        implies="The application does not process these records: they wait, and are lost to it when retention removes "
        "them first.",
        do_first="See in the evidence since when, and at which offset: read the record there (a poison pill), and the "
        "log of the member that has the partition. If it is the last stable offset, a transaction hangs there.",
        source="Burrow (the rules of its evaluator: a window of commits, no threshold)",
        allowed="An application that only commits what it keeps, in a topic where it keeps nothing.",
        ends=True,
        shows="unavailability",
        picture=(("the log", "a b c d e"), ("the group committed", "a b | !b !b")),
    ),
    Anomaly(
        name="group-reset",
        title="A group was moved",
        severities=("warning", "info"),
        scopes=("watch",),
        meaning="The committed offset of a consumer group went back, beyond the end of the log, over records that were "
        "deleted before the group had read them, or forward while the group had no member (info: while it had no "
        "member, or by a tool).",
        implies="The application processes records again, or never processes those in between.",
        do_first="Ask who reset the group. If nobody did: see auto.offset.reset and the log of the application, then "
        "whether __consumer_offsets has lost writes. The evidence has the offsets before and after: the application's "
        "owners must know both.",
        source="Burrow (a rewind); Kafka's kafka-consumer-groups.sh --reset-offsets",
        allowed="An application that goes back by itself, and an operator who means it.",
        shows="damage",
        picture=(("a group committed", "40 41 42 | !0"),),
    ),
    Anomaly(
        name="group-offsets-expired",
        title="A group has lost its place",
        severities=("warning", "info"),
        scopes=("watch",),
        meaning="A consumer group that had committed in a partition has no committed offset there any more, and the "
        "topic is the same (info: it had no member, and nothing was left to read).",
        implies="When the application starts it goes to where auto.offset.reset says: it processes everything again, "
        "or skips what came in between.",
        do_first="Before the application starts, put the group back to the offset before, which is in the evidence: "
        "kafka-consumer-groups.sh --reset-offsets --to-offset. Then raise offsets.retention.minutes.",
        source="KIP-211 (expiry of committed offsets); Burrow",
        allowed="An operator who deletes a group or its offsets.",
        shows="damage",
        picture=(("a group committed", "40 41 42 | !none"),),
    ),
    Anomaly(
        name="hanging-transaction",
        title="A transaction that nobody ends",
        severities=("warning",),
        scopes=("watch",),
        meaning="A transaction has been open in a partition for longer than the cluster lets one be open "
        "(transaction.max.timeout.ms), or for `watch.hanging_after` where that is set.",
        implies="No read_committed consumer is given anything behind its first record, whoever wrote it, and "
        "compaction stops there.",
        do_first="See in the evidence whose it is. If its producer lives, restart that: it aborts what it had left "
        "open. Else end it with the command in the evidence (kafka-transactions.sh abort), which aborts its records.",
        source='KIP-664; KIP-890; jepsen-redpanda 3.7 ("a jar of applesauce")',
        ends=True,
        shows="unavailability",
        picture=(("the log", "a b !t c d"), ("a read_committed reader", "a b !here . .")),
    ),
    Anomaly(
        name="replica-divergence",
        title="Replicas differ",
        severities=("critical",),
        scopes=("watch",),
        meaning="Replicas of a partition that are in sync hold different records below the high watermark, or one has "
        "a batch whose CRC is wrong; seen twice, and not explained by compaction.",
        implies="Which records consumers are given depends on who leads: after the next election, or from a follower, "
        "acknowledged records are gone or are others.",
        do_first="Move no leader to the broker that the evidence names. Run the command there once more, and look at "
        "that broker's disk and log. If it is a follower, and the others agree, let it copy its replica anew; if it "
        "is the leader, keep a copy of every replica first.",
        source="KIP-101, KIP-279 (logs that diverge); kafka-replica-verification.sh, removed in Kafka 4.0",
        allowed="A topic that was compacted before, and is not any more: what each broker removed then stays so.",
        shows="damage",
        picture=(("broker 1", "a b c d"), ("broker 2", "a b c d"), ("broker 3", "a !· c !x")),
    ),
    Anomaly(
        name="record-lost",
        title="A record of yours is gone",
        severities=("critical",),
        scopes=("spark",),
        meaning="A committed record of a topic under `digests.topics` was in the log when digests were last made, or "
        "its producer has a receipt for it, and it is not there, though neither retention nor compaction explains it.",
        implies="Data of an application is gone from Kafka. Consumers that had not read it never will.",
        do_first="Do not restart, reassign or clean up anything: copies may survive on brokers outside the ISR. The "
        "violation names the offsets, and when they were last there; keep the brokers' data directories.",
        source="KAFKA-17412 (ReplicaVerificationTool is removed in 4.0, without a successor); why-fsync",
        shows="loss",
        picture=(("last night", "a b c d"), ("tonight", "a b ~c ~d")),
    ),
    Anomaly(
        name="record-changed",
        title="A record of yours is another one",
        severities=("critical",),
        scopes=("spark",),
        meaning="At an offset of a topic under `digests.topics` stands another record than when digests were last "
        "made, or than its producer has a receipt for.",
        implies="The log was cut and filled again, or a file was damaged: what stood there is gone, and consumers that "
        "had read it have something that the log does not have.",
        do_first="Compare the range on every replica (kafka-dump-log.sh) before anything is compacted or deleted, and "
        "look for an unclean election since the time in the evidence.",
        source="jepsen-redpanda 2.2; call-me-maybe-kafka",
        shows="loss",
        picture=(("last night", "a b c d"), ("tonight", "a b !x !y")),
    ),
)
