"""Entries of the catalogue about the cluster: who leads, who follows, whether we can look at all."""

from __future__ import annotations

from canary.anomalies.anomaly import entry

CLUSTER_ANOMALIES = (
    entry(
        "committed-offset-regression",
        "Committed offset went back",
        ("warning",),
        "watch",
        "online",
        meaning="A consumer group's committed offset went backwards, and we did not do it.",
        implies="The group will process messages again; the offsets topic itself may have lost writes.",
        do_first="See whether someone reset the group; if not, look at the partition of __consumer_offsets.",
        source="jepsen-redpanda 1.1; ANOMALIES Part II",
        allowed="An offset reset by an operator.",
    ),
    entry(
        "offline-partition",
        "Partition offline",
        ("critical",),
        "watch",
        "online",
        meaning="The partition has no leader, or an empty set of in-sync replicas.",
        implies=(
            "Nobody can write or read; which offsets exist on which broker only is in the evidence as far as known."
        ),
        do_first=(
            "Bring back the last member of the ISR. Do not elect uncleanly: it discards acknowledged messages for ever."
        ),
        source='call-me-maybe-kafka ("block and sound an alarm"); distributed-consensus-reloaded',
    ),
    entry(
        "isr-of-one",
        "One replica alone holds the data",
        ("critical", "warning"),
        "watch",
        "online",
        meaning="The ISR of a replicated partition has shrunk to one while writes can still be acknowledged: critical "
        "in a probe topic after 10 s, a warning in any other topic after 10 minutes, longer than a restart takes.",
        implies="What is acknowledged now exists once: losing that broker, or its page cache, loses it.",
        do_first="Bring followers back before anything else; set min.insync.replicas to 2 for that topic.",
        source="call-me-maybe-kafka; why-fsync",
        allowed="Replication factor 1 by design; a restart within the set time.",
    ),
    entry(
        "under-min-isr",
        "Fewer in-sync replicas than required",
        ("warning",),
        "watch",
        "online",
        meaning="The ISR is smaller than min.insync.replicas for longer than the set time.",
        implies="Producers with acks=all are refused: unavailable, not unsafe.",
        do_first="Find out which replicas are missing and why; do not lower min.insync.replicas to get writes going.",
        source="call-me-maybe-kafka",
        allowed="Rolling restarts within the set time.",
    ),
    entry(
        "isr-below-half",
        "Less than a majority in sync",
        ("warning",),
        "watch",
        "online",
        meaning="Fewer than half of the replicas are in sync for longer than the set time.",
        implies="The next failures may leave only stale replicas; no majority could confirm what is acknowledged now.",
        do_first="Bring replicas back; look for a slow disk or network on the leader.",
        source="call-me-maybe-kafka; distributed-consensus-reloaded",
        allowed="Rolling restarts within the set time.",
    ),
    entry(
        "under-replicated",
        "Under-replicated partition",
        ("warning",),
        "watch",
        "online",
        meaning="Some replicas are not in sync for longer than the set time.",
        implies="Less redundancy than paid for; nothing is lost yet.",
        do_first="Find out which broker is behind or gone.",
        source="call-me-maybe-kafka",
        allowed="Rolling restarts within the set time.",
    ),
    entry(
        "unclean-election",
        "Unclean leader election",
        ("critical", "info"),
        "watch",
        "online",
        meaning="A broker outside the last known ISR became leader, and the log's end went back or was cut.",
        implies="Everything acknowledged that this broker did not have is lost.",
        do_first=(
            "Keep the data directories of the former ISR members before they rejoin and truncate; set "
            "unclean.leader.election.enable=false."
        ),
        source="call-me-maybe-kafka; why-fsync; distributed-consensus-reloaded",
        allowed="Without evidence of loss only suspected (info): a replica may have rejoined between two samples.",
    ),
    entry(
        "leader-epoch-regression",
        "Leader epoch went back",
        ("warning",),
        "watch",
        "online",
        meaning="The leader epoch of a partition became smaller in one incarnation of its topic.",
        implies="The cluster's metadata was restored or lost, or two brokers answer from different histories.",
        do_first="Compare the controllers' metadata logs; look for a restored backup.",
        source="distributed-consensus-reloaded (epochs); ANOMALIES Part II",
    ),
    entry(
        "topic-recreated",
        "Topic deleted and made again",
        ("warning",),
        "watch",
        "online",
        meaning="The topic has another id than before: it was deleted and made again.",
        implies="All its former content is gone; the number of promises voided is in the evidence.",
        do_first="Find out who did it. Clients did not notice: consumers' offsets now mean other messages.",
        source="ARCHITECTURE decision 7",
    ),
    entry(
        "another-cluster",
        "Another cluster behind the address",
        ("critical",),
        "watch",
        "online",
        meaning="The cluster behind the configured address has another id than the one known before.",
        implies="Nothing can be judged; every client of this address talks to a cluster without its data.",
        do_first=(
            "Check DNS, load balancers and the brokers' meta.properties. Probing has stopped, and goes on by itself "
            "when the known cluster answers again."
        ),
        source="ARCHITECTURE decision 7",
    ),
    entry(
        "clock-skew",
        "Clocks disagree",
        ("warning",),
        "watch",
        "online",
        meaning=(
            "A leader's clock is more than 10 s before or behind ours, by the time at which it appended a probe "
            "(measured only on topics with message.timestamp.type=LogAppendTime)."
        ),
        implies=(
            "Retention by time may delete too early or too late; judgements here never depend on clocks. On topics "
            "with CreateTime every timestamp is the producer's own, and brokers' clocks are not measured."
        ),
        do_first="Check time synchronisation on the brokers and on this machine.",
        source="jepsen-redpanda 2 (clock faults); ANOMALIES Part II",
    ),
    entry(
        "blind",
        "We cannot look",
        ("critical",),
        "watch",
        "online",
        meaning="The cluster refuses the canary (authentication, authorisation, certificate, quota), or has answered "
        "none of its questions for 45 s (unreachable, or too slow), or the canary cannot judge what it sees (its "
        "ledger cannot be written, one of its threads ends again and again).",
        implies="Nothing is known about durability from now on; silence is not health.",
        do_first="See in the evidence which. Refused: renew the canary's credentials, rights or certificate. No "
        "answer: see whether the brokers live, and whether the way to them is open (clusters[].kafka, DNS, firewall). "
        "Cannot judge: free or repair the disk of its ledger; read the end of its log.",
        source="ANOMALIES Part II",
    ),
    entry(
        "memory-lost",
        "The canary has forgotten a time",
        ("warning",),
        "online",
        meaning="The ledger was damaged, wiped or put back, and does not hold what it once held.",
        implies=(
            "A loss of what was acknowledged in the time that is named may go unnoticed until a reconciliation has "
            "read everything, which the next one does."
        ),
        do_first="Check the disk that holds the ledger; ask for a reconciliation.",
        source="ARCHITECTURE decisions 1 and 4",
    ),
    entry(
        "stalled",
        "A consumer stands still",
        ("warning", "critical"),
        "online",
        meaning="A consumer makes no progress though there are messages to progress to.",
        implies="Consumers of this partition are probably stuck as well; the data may be there and yet unreachable.",
        do_first=(
            "Look for a transaction that was never finished (last stable offset), a leader that answers no fetches, "
            "and a client that needs to be renewed."
        ),
        source="jepsen-redpanda 3.6",
    ),
)
