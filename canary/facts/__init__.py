"""What was seen, in the order in which it was seen. Nothing here judges.

A *fact* is a frozen value: "this probe was handed to the client", "the cluster acknowledged it at offset 17",
"this consumer was given that identity at offset 17", "the topic's id is such". Everything that touches Kafka
(canary.probing, canary.watching) does nothing but put facts into one queue; the ledger makes them durable in that
queue's order; the tracker (canary.anomalies.online) folds them in the same order into judgements. So a replay of the
ledger after a kill -9 is the same fold, and every rule about "before" and "after" means that order and never a clock.

Conventions
-----------
* ``at_ns``: when it happened, in ns since the epoch (UTC) for people, never for order. The runner's clock does not go
  back within one process (wall time at its start plus monotonic time).
* Facts are flat: every field is a column of COLUMNS, so that a batch of facts is one Arrow table (storage.ledger) and a
  segment of the ledger becomes Parquet without interpretation. A field name has one type in every fact.
* ``topic`` is a name; which incarnation (topic id) a fact belongs to is decided by the tracker from the TopicSeen
  facts that bracket it (ARCHITECTURE decision 7).
* ``consumer`` names the reader: ``tail`` readers are called after their isolation level, a re-read
  ``reread-<request id>``; each has its own client instance.
* ``sample`` numbers one round of asking the cluster about itself. WatchAsked(sample) enters the queue before the first
  request of the round is sent; the answers carry the same number. An answer is judged only against facts that stand
  before its WatchAsked (decision 5).
"""

from canary.facts.kinds import (
    COLUMNS,
    FACT_KINDS,
    Aborted,
    Acked,
    BrokerSeen,
    ClientError,
    ClusterSeen,
    CommitAsked,
    Committed,
    CoordinatorsSeen,
    EndOfPartition,
    Fact,
    Failed,
    GenerationBegan,
    GroupOffset,
    Indeterminate,
    Isolation,
    Listed,
    MemoryLost,
    OutOfRange,
    PartitionSeen,
    Polled,
    Positioned,
    ProducerEpochBumped,
    ProducerLooked,
    Refused,
    Relayed,
    RereadEnded,
    RunnerStarted,
    ScrubAsked,
    Sent,
    Tick,
    TopicConfigured,
    TopicGone,
    TopicSeen,
    TopologySeen,
    TransactionBegan,
    TransactionIndeterminate,
    WatchAsked,
    WatchedConfigured,
    WatchedGone,
    WatchedListed,
    WatchedPartition,
    WatchFailed,
)

__all__ = [
    "COLUMNS",
    "FACT_KINDS",
    "Aborted",
    "Acked",
    "BrokerSeen",
    "ClientError",
    "ClusterSeen",
    "CommitAsked",
    "Committed",
    "CoordinatorsSeen",
    "EndOfPartition",
    "Fact",
    "Failed",
    "GenerationBegan",
    "GroupOffset",
    "Indeterminate",
    "Isolation",
    "Listed",
    "MemoryLost",
    "OutOfRange",
    "PartitionSeen",
    "Polled",
    "Positioned",
    "ProducerEpochBumped",
    "ProducerLooked",
    "Refused",
    "Relayed",
    "RereadEnded",
    "RunnerStarted",
    "ScrubAsked",
    "Sent",
    "Tick",
    "TopicConfigured",
    "TopicGone",
    "TopicSeen",
    "TopologySeen",
    "TransactionBegan",
    "TransactionIndeterminate",
    "WatchAsked",
    "WatchFailed",
    "WatchedConfigured",
    "WatchedGone",
    "WatchedListed",
    "WatchedPartition",
]
