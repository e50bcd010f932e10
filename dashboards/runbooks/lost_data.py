"""Runbooks of what is gone, or is not what was written."""

from typing import Final

from dashboards.runbooks import commands as run
from dashboards.runbooks import shared
from dashboards.runbooks.runbook import Runbook, Step

READ_THE_PLACE: Final = Step(
    "Read the place yourself, and what the canary knows of it. Another value at that offset, or none, is a loss; the "
    "promised probe is a false alarm. A first offset of the log above it means expired, not lost.",
    run.READ,
    run.FIRST_OFFSET,
    run.PROBE_LOG,
)
STOP: Final = (
    shared.TOUCH_NOTHING,
    shared.FORMER_LEADERS,
    shared.STAY_DOWN,
    shared.PRESERVE,
    shared.UNCLEAN_OFF,
    shared.SLOW_THE_WRITERS,
)
EXTENT: Final = (
    shared.EXPOSED,
    shared.WHERE_CUT,
    shared.IN_THE_COPY,
    shared.GROUPS_BEYOND,
    shared.READ_EVERYTHING,
)
RECOVER: Final = (
    shared.SALVAGE,
    shared.REPLAY,
    shared.RESCUE,
    shared.READ_THE_RESCUED,
    shared.WRITE_AGAIN,
    shared.RESET_GROUPS,
    shared.REJOIN,
    Step(
        "If no broker has the record any more: take it from where it came from (the writer's database, an outbox) or "
        "went to (a mirror, a sink, tiered storage). A file system snapshot of a broker's disk is worth asking for."
    ),
    Step(
        "Redpanda: partitions are Raft groups, without an ISR and without unclean elections; a replica's files are in "
        "its data directory under kafka/TOPIC/PARTITION_REVISION. `rpk cluster partitions unsafe-recover` is its "
        "unclean election: the last resort, for a majority that is gone for good."
    ),
)
TELL: Final = (shared.TELL_OWNERS, shared.EXPORT, shared.CLOSE_LOST)

LOST: Final = Runbook(
    title="Acknowledged writes are gone",
    kinds=(
        "lost-write",
        "suspected-loss",
        "truncation",
        "offset-regression",
        "inconsistent-offsets",
        "unclean-election",
    ),
    means=(
        Step(
            "It is not late: readers have passed the place. Somewhere a broker without the record became leader (an "
            "unclean election, or a broker that came back without its last writes, which were in memory and not on "
            "disk), and the others cut their logs to its own."
        ),
        Step(
            "A lost write, a truncation, two messages at one offset and an unclean election at one time and place are "
            "views of one loss: the incident has them together."
        ),
    ),
    real=(
        shared.ON_THE_PAGES,
        READ_THE_PLACE,
        Step(
            "A loss that is suspected has been confirmed by no fetch yet, and an election that is only suspected "
            "(info) may be a replica that rejoined between two looks. Of a topic that is watched, not probed, the "
            "first sign may be all there is: do as if it were real until it is disproved."
        ),
    ),
    stop=STOP,
    extent=EXTENT,
    recover=RECOVER,
    tell=TELL,
)
RECORDS: Final = Runbook(
    title="Records of an application are gone, or others",
    kinds=("record-lost", "record-changed"),
    means=(
        Step(
            "Digests of the topic were compared with those of an earlier night. They hold no record, only hashes over "
            "64 offsets: of what is lost every offset is known. Of what is changed, too, if an election cut the log "
            "(evidence.cut_at), else only the 64 offsets that it is among."
        ),
        Step("Both at once at the end of a partition: its log was cut, and filled again."),
    ),
    real=(
        shared.ON_THE_PAGES,
        READ_THE_PLACE,
        Step(
            "It was read twice. Somebody who deleted and restored a log's files, or restored a backup of a broker's "
            "disk, has the same effect; retention, DeleteRecords and compaction have not."
        ),
    ),
    stop=STOP,
    extent=(
        *EXTENT,
        Step(
            "Compare every topic that has digests now, whole: the night reads only a share of old records again "
            "(digests.reread)."
        ),
    ),
    recover=RECOVER,
    tell=TELL,
)
FRACTURED: Final = Runbook(
    title="Part of a committed transaction is gone",
    kinds=("fractured-transaction",),
    means=(
        Step(
            "Either one partition has lost a record, as in a lost write, or the transaction's commit marker is missing "
            "or says abort in one of its partitions."
        ),
    ),
    real=(
        shared.ON_THE_PAGES,
        READ_THE_PLACE,
        Step(
            "See which: the record is in the log and unread (its marker is missing, or aborts it), or it is not in the "
            "log (a loss). The dump shows control batches: endTxnMarker: COMMIT or ABORT.",
            run.PRODUCERS,
            run.TRANSACTIONS,
            run.DUMP,
        ),
    ),
    stop=(
        *STOP,
        Step(
            "Do not abort or terminate the transaction by hand: it would void the part that was kept. Pause consumers "
            "that act on the part they can see, where half is worse than nothing."
        ),
    ),
    extent=(
        *EXTENT,
        Step("See which version of transactions is in force: 2 ends a class of such faults (KIP-890).", run.FEATURES),
    ),
    recover=RECOVER,
    tell=TELL,
)
EXPIRED: Final = Runbook(
    title="Data was deleted before its time",
    kinds=("early-expiry", "unexplained-expiry"),
    means=(
        Step(
            "The beginning of the log moved past records that retention.ms, retention.bytes and the time since do not "
            "explain: a call of DeleteRecords, a changed setting, a clock that jumped, timestamps in the future or the "
            "past, or a bug."
        ),
    ),
    real=(
        shared.ON_THE_PAGES,
        Step(
            "Compare the log's first offset with the violation's, and the retention in force with the age of what is "
            "gone. A setting that somebody changed shows as DYNAMIC_TOPIC_CONFIG.",
            run.FIRST_OFFSET,
            run.SETTINGS,
        ),
    ),
    stop=(
        Step(
            "Keep what is left, in this topic and in others like it; then watch the disks, for nothing expires now.",
            run.KEEP_ALL_RECORDS,
        ),
        Step(
            "Copy at once what was deleted last: segments stay as *.deleted for file.delete.delay.ms, a minute by "
            "default.",
            run.KEEP_PARTITION,
        ),
        Step("Stop the job that calls DeleteRecords or changes retention, if one does (audit log of the brokers)."),
    ),
    extent=(
        Step("See which topics changed at the same time, and each broker's clock.", run.OVERRIDES, run.CLOCK),
        shared.EXPOSED,
        shared.READ_EVERYTHING,
    ),
    recover=(
        Step("With tiered storage: what is deleted locally may still be in the remote tier. Else from copies:"),
        shared.RESCUE,
        shared.READ_THE_RESCUED,
        shared.WRITE_AGAIN,
        Step("Put the topic's retention back to what its owners want, when they have what they need.", run.SETTINGS),
    ),
    tell=(shared.TELL_OWNERS, shared.CLOSE_LOST),
)
ALTERED: Final = Runbook(
    title="A record is not what was written",
    kinds=("corrupt", "phantom"),
    means=(
        Step(
            "The canary's own checksum, inside the value, does not hold, or nobody sent the record; Kafka's CRC of the "
            "batch did not object. So it was altered before the CRC was made or after it was checked: memory, a "
            "proxy or plug-in that rewrites records, a recompressing broker; or somebody else writes to the topic."
        ),
    ),
    real=(
        shared.ON_THE_PAGES,
        Step("Read the record, and look at it on each replica's disk.", run.READ, run.DUMP),
        Step(
            "See that no other program writes to the probe topic (a mirror, a replayed backup, a test), and that the "
            "canary's ledger was not cut (memory-lost)."
        ),
    ),
    stop=(
        shared.TOUCH_NOTHING,
        shared.PRESERVE,
        Step(
            "If replicas differ and the leader is the wrong one, make another leader before anything is restarted: put "
            "a good replica first (kafka-reassign-partitions.sh), then elect the preferred one.",
            run.BATCHES,
            run.DIFF,
            run.ELECT_PREFERRED,
        ),
        Step("Take no broker out of service that has the only good copy. Then take the one that differs."),
    ),
    extent=(
        Step("Look at that machine: kernel log, disk and memory errors.", run.KERNEL),
        shared.EXPOSED,
        shared.READ_EVERYTHING,
    ),
    recover=(
        Step(
            "A follower that differs is made anew from a good leader: with the copies safe, stop it, move this "
            "partition's directory away (not delete), start it, and wait for the ISR.",
            run.DESCRIBE,
        ),
        shared.WRITE_AGAIN,
    ),
    tell=(shared.TELL_OWNERS, shared.EXPORT, shared.CLOSE_LOST),
)
DIVERGED: Final = Runbook(
    title="Replicas of a partition differ",
    kinds=("replica-divergence",),
    means=(
        Step(
            "In-sync replicas hold the same records up to the high watermark. One that lacks some, has others, or has "
            "a batch with a wrong CRC, gives them out as soon as it leads, or at once to consumers that read from it. "
            "Nothing is lost as long as another replica has the records."
        ),
        Step(
            "With three replicas the one that differs from the others is named; with two it is said that they differ. "
            "A wrong CRC names its broker in any case."
        ),
    ),
    real=(
        shared.ON_THE_PAGES,
        Step("Compare once more, by hand. It reads twice where something differs.", run.COMPARE),
        Step(
            "If the topic was compacted before, and is not any more, brokers may have removed different records then: "
            "each record that is missing has a later one of its key.",
            run.SETTINGS,
        ),
        Step("On the brokers: the batches of both replicas, and where they differ.", run.BATCHES, run.DIFF),
    ),
    stop=(
        Step(
            "Do not restart the brokers of the sound replicas, and do not move the leadership to the odd one. If the "
            "odd one leads, have the consumers that mind paused; what it lacks they have missed already."
        ),
        shared.PRESERVE,
        shared.UNCLEAN_OFF,
    ),
    extent=(
        Step("Compare the other partitions of that broker, topic by topic, without --partition.", run.COMPARE),
        Step("Look at the broker's disk: what harmed one batch may harm others.", run.KERNEL, run.DISKS),
    ),
    recover=(
        Step(
            "If the odd one leads, give the leadership to a sound replica first: make that the preferred one "
            "(kafka-reassign-partitions.sh), then elect it.",
            run.ELECT_PREFERRED,
        ),
        Step(
            "Let the odd follower copy its replica anew from a leader that is sound: move the replica to another "
            "broker and back (kafka-reassign-partitions.sh), which deletes the bad copy only when the new one is in "
            "sync.",
            run.REASSIGNMENTS,
        ),
        Step("Compare again: it has to end with status 0.", run.COMPARE),
    ),
    tell=(
        Step("The owners of the topic: which offsets differ, on which broker, and since when it may have led."),
        shared.EXPORT,
        shared.CLOSE_LOST,
    ),
)
