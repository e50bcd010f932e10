"""Bugs that the cluster has on purpose, where a leader appends: each strikes by dice while its name is in ``bugs``."""

from collections.abc import Callable
from functools import partial

from simulation.kafka import errors
from simulation.kafka.contract import Batch, Produced, Record
from simulation.kafka.replica import Replica

HELD_S = 1.0
"""So long a batch waits for a later one that overtakes it."""
Append = Callable[[], None]


def lie_about(replica: Replica, batch: Batch, records: list[Record]) -> Produced | None:
    """Acknowledge a batch that is not written; None: this bug does not strike.

    "ack-before-write" gives it an offset; "mistaken-duplicate" calls it a copy of what was written long ago.
    """
    partition, first = replica.partition, records[0]
    cluster = replica.cluster
    place = (*partition.key, first.offset)
    mistaken = batch.first_sequence >= 0 and cluster.strikes("mistaken-duplicate", *place)
    if not mistaken and (batch.transactional_id or not cluster.strikes("ack-before-write", *place)):
        return None
    lead = replica.leadership()
    if batch.first_sequence >= 0:
        sequences = (batch.producer_id, batch.producer_epoch, first.sequence, records[-1].sequence)
        lead.producers.expect(*sequences, first.offset, first.timestamp_ms)
    partition.tell_lost(records, "never written")
    return Produced(errors.DUPLICATE_SEQUENCE_NUMBER if mistaken else 0, first.offset, first.timestamp_ms)


def damage(replica: Replica, records: list[Record]) -> None:
    """Harm what was just appended: "corrupt" flips a byte of a value, "hidden-record" never shows one."""
    partition = replica.partition
    cluster = replica.cluster
    for record in records:
        if record.value and cluster.strikes("corrupt", *partition.key, record.offset):
            at = cluster.dice.randrange(len(record.value))
            record.value = record.value[:at] + bytes([record.value[at] ^ 0x55]) + record.value[at + 1 :]
        if cluster.strikes("hidden-record", *partition.key, record.offset):
            partition.hidden[id(record)] = record


def copied(replica: Replica, records: list[Record]) -> list[Record]:
    """Return the copy that is appended behind a batch, or nothing.

    "duplicated" copies the batch itself; "copied-late" one that the log has deleted, of no transaction: its marker is
    gone, too.
    """
    cluster, partition, end = replica.cluster, replica.partition, replica.log.end
    expired = [one for one in partition.expired if not one.transactional] if "copied-late" in cluster.bugs else []
    if expired and cluster.strikes("copied-late", *partition.key, end):
        batch = cluster.dice.choice(expired).batch
        records = [one for one in expired if one.batch == batch]
    elif not cluster.strikes("duplicated", *partition.key, end):
        return []
    return [
        Record(
            end + at, replica.epoch, one.key, one.value, one.timestamp_ms, one.producer_id, one.producer_epoch,
            one.sequence, one.transactional, None, cluster.schedule.now, end,
        )
        for at, one in enumerate(records)
    ]  # fmt: skip


def hold_back(replica: Replica, batch: Batch, append: Append) -> bool:
    """Let a batch wait for the producer's next one, which then comes before it ("reordered")."""
    partition = replica.partition
    cluster = replica.cluster
    key = (replica.broker, batch.producer_id)
    if key in partition.held or not cluster.strikes("reordered", *partition.key, replica.log.end):
        return False
    partition.held[key] = (batch.first_sequence, append)
    cluster.schedule.after(HELD_S, partial(release, replica, batch.producer_id))
    return True


def overtakes(replica: Replica, batch: Batch) -> bool:
    """Whether an earlier batch of this producer is held back, so that this one comes before it."""
    held = replica.partition.held.get((replica.broker, batch.producer_id))
    return held is not None and (batch.producer_id < 0 or held[0] < batch.first_sequence)


def release(replica: Replica, producer_id: int) -> None:
    """Append what was held back of this producer."""
    held = replica.partition.held.pop((replica.broker, producer_id), None)
    if held is not None and replica.lead is not None and replica.node.serving:
        held[1]()
