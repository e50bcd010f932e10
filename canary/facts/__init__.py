"""Facts: what the canary saw, as frozen values in one order. Nothing here judges.

A *fact* says "this probe is about to be handed to the client", "the cluster acknowledged it at offset 17", "this
consumer was given that probe at offset 17", "the topic's id is such". Everything that touches Kafka (canary.probing,
canary.watching) only puts facts into one queue. The ledger makes them durable in the queue's order, and the tracker
(canary.anomalies.online) folds them into judgements in the same order. So a replay of the ledger after a kill -9 is the
same fold, and "before" and "after" in every rule mean that order, never a clock.

Conventions
-----------
* ``at_ns`` is when it happened, in ns since the epoch (UTC): for people, never for order. The runner's clock does not
  go back within one process (wall time at its start plus monotonic time). How far the machine's clock is from it is a
  fact of its own, ClockSeen; what is filed has the machine's times.
* Facts are flat. Every field is a column of COLUMNS and has one type in every fact, so that a batch of facts is one
  Arrow table (storage.ledger), and a segment of the ledger becomes Parquet without interpretation.
* ``topic`` is a name. The tracker decides which incarnation (topic id) a fact belongs to, from the TopicSeen facts
  before and after it (ARCHITECTURE decision 7).
* ``consumer`` names the reader. A tail reader is called after its isolation level, a re-read ``reread-<request id>``;
  each has a client of its own.
* ClusterMet says which cluster a client is in; it comes before the facts of that client. The end of a re-read, which
  alone may show that a record is absent, carries the id itself (RereadEnded).
* ``sample`` numbers one round of questions to the cluster. WatchAsked(sample) enters the queue before the round's first
  request is sent, and the answers carry its number. An answer is judged only against facts before its WatchAsked
  (decision 5).
"""

import dataclasses
import types
import typing
from collections.abc import Iterator, Sequence
from typing import Any

from canary.facts.batch import Batch as Batch
from canary.facts.consuming import EndOfPartition as EndOfPartition
from canary.facts.consuming import GroupOffset as GroupOffset
from canary.facts.consuming import Isolation as Isolation
from canary.facts.consuming import OutOfRange as OutOfRange
from canary.facts.consuming import Polled as Polled
from canary.facts.consuming import Positioned as Positioned
from canary.facts.consuming import RandomReadAsked as RandomReadAsked
from canary.facts.consuming import Refused as Refused
from canary.facts.consuming import RereadEnded as RereadEnded
from canary.facts.consuming import ScrubAsked as ScrubAsked
from canary.facts.producing import Aborted as Aborted
from canary.facts.producing import Acked as Acked
from canary.facts.producing import CommitAsked as CommitAsked
from canary.facts.producing import Committed as Committed
from canary.facts.producing import CoordinatorsSeen as CoordinatorsSeen
from canary.facts.producing import Failed as Failed
from canary.facts.producing import GenerationBegan as GenerationBegan
from canary.facts.producing import Indeterminate as Indeterminate
from canary.facts.producing import ProducerEpochBumped as ProducerEpochBumped
from canary.facts.producing import ProducerLooked as ProducerLooked
from canary.facts.producing import Relayed as Relayed
from canary.facts.producing import Sent as Sent
from canary.facts.producing import Skipped as Skipped
from canary.facts.producing import TransactionBegan as TransactionBegan
from canary.facts.producing import TransactionIndeterminate as TransactionIndeterminate
from canary.facts.running import ClientError as ClientError
from canary.facts.running import ClockSeen as ClockSeen
from canary.facts.running import MemoryLost as MemoryLost
from canary.facts.running import RunnerStarted as RunnerStarted
from canary.facts.running import Tick as Tick
from canary.facts.watching import BrokerSeen as BrokerSeen
from canary.facts.watching import ClusterMet as ClusterMet
from canary.facts.watching import ClusterSeen as ClusterSeen
from canary.facts.watching import EpochSeen as EpochSeen
from canary.facts.watching import Listed as Listed
from canary.facts.watching import LogSized as LogSized
from canary.facts.watching import PartitionSeen as PartitionSeen
from canary.facts.watching import QuorumSeen as QuorumSeen
from canary.facts.watching import Reported as Reported
from canary.facts.watching import TopicConfigured as TopicConfigured
from canary.facts.watching import TopicGone as TopicGone
from canary.facts.watching import TopicSeen as TopicSeen
from canary.facts.watching import TopologySeen as TopologySeen
from canary.facts.watching import WatchAsked as WatchAsked
from canary.facts.watching import WatchedConfigured as WatchedConfigured
from canary.facts.watching import WatchedGone as WatchedGone
from canary.facts.watching import WatchedListed as WatchedListed
from canary.facts.watching import WatchedPartition as WatchedPartition
from canary.facts.watching import WatchFailed as WatchFailed

Fact = (
    RunnerStarted
    | GenerationBegan
    | Sent
    | Acked
    | Failed
    | Indeterminate
    | Positioned
    | Polled
    | Refused
    | EndOfPartition
    | OutOfRange
    | RereadEnded
    | WatchAsked
    | WatchFailed
    | ClusterSeen
    | TopicSeen
    | TopicGone
    | TopicConfigured
    | PartitionSeen
    | Listed
    | TransactionBegan
    | CommitAsked
    | Committed
    | Aborted
    | TransactionIndeterminate
    | ClientError
    | Tick
    | ProducerLooked
    | Relayed
    | GroupOffset
    | BrokerSeen
    | WatchedPartition
    | WatchedGone
    | WatchedConfigured
    | WatchedListed
    | TopologySeen
    | ScrubAsked
    | CoordinatorsSeen
    | ProducerEpochBumped
    | MemoryLost
    | Skipped
    | RandomReadAsked
    | EpochSeen
    | QuorumSeen
    | LogSized
    | ClockSeen
    | Reported
    | ClusterMet
)

FACT_KINDS: tuple[type[Fact], ...] = typing.get_args(Fact)
"""Every kind of fact. The position in this tuple is its number on disk: append, never reorder."""


Facts = Sequence[Fact | Batch[Any]]
"""Facts in their order, some of them in batches."""


def count(facts: Facts) -> int:
    """Return how many facts they are."""
    return sum(len(one) if isinstance(one, Batch) else 1 for one in facts)


def each(facts: Facts) -> Iterator[Fact]:
    """Yield every fact by itself."""
    for one in facts:
        if isinstance(one, Batch):
            yield from one
        else:
            yield one


def _columns() -> dict[str, type]:
    """Return the type (int, str or bool) of each field name, the same in every fact that has it."""
    columns: dict[str, type] = {}
    for kind in FACT_KINDS:
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            hint = hints[field.name]
            if isinstance(hint, types.UnionType):
                (hint,) = (part for part in typing.get_args(hint) if part is not type(None))
            if columns.setdefault(field.name, hint) is not hint:
                raise TypeError(f"{kind.__name__}.{field.name} is {hint}, elsewhere {columns[field.name]}")
    return columns


COLUMNS: dict[str, type] = _columns()
"""Field name to int, str or bool: the columns of a table that can hold any fact (absent = null)."""
