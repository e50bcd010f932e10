"""What clients ask of a broker about a partition: produce, fetch, list offsets."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal

from simulation.cluster import bugs
from simulation.cluster.controller import Controller
from simulation.cluster.core import Core
from simulation.cluster.topics import Topics
from simulation.cluster.transactions import Transactions
from simulation.kafka import errors
from simulation.kafka.contract import Batch, Fetched, Isolation, Listing, Metadata, Produced, Record
from simulation.kafka.leadership import Leadership
from simulation.kafka.log import Log
from simulation.kafka.replica import Replica

UNKNOWN = errors.UNKNOWN_TOPIC_OR_PART
NOT_LEADER = errors.NOT_LEADER_FOR_PARTITION
Reply = Callable[[Produced], None]


class Requests(Core):
    """Requests that a partition's leader answers, or the broker that believes to be it."""

    controller: Controller
    topics: Topics
    transactions: Transactions

    def metadata(self, broker: int) -> Metadata:
        """Return what this broker knows."""
        told = self.nodes[broker].image or self.controller.image()
        if self.answers_as is None:
            return told
        self.answered_as.add(self.answers_as)
        return replace(told, cluster_id=self.answers_as)

    def reaches(self, site: str, broker: int) -> bool:
        """Whether a request from ``site`` gets through to a live, not frozen broker now, and an answer back."""
        node = self.nodes.get(broker)
        return node is not None and node.serving and self.network.passes(site, broker)

    def _answer(self, site: str, broker: int, reply: Reply, value: Produced) -> None:
        delay = self.latency_s + self.nodes[broker].slow_s
        if delay > 0:
            self.schedule.after(delay, partial(self._send, site, broker, reply, value))
        else:
            self._send(site, broker, reply, value)

    def _send(self, site: str, broker: int, reply: Reply, value: Produced) -> None:
        if self.reaches(site, broker):
            reply(value)

    def produce(
        self, site: str, broker: int, topic: str, partition: int, batch: Batch, acks: int,
        timeout_s: float, reply: Reply,
    ) -> None:  # fmt: skip
        """Append a batch; a frozen broker does that when it goes on."""
        node = self.nodes[broker]
        if not node.serving or not self.network.passes(site, broker):
            if node.up and node.registered and self.network.passes(site, broker):
                node.queue.append(partial(self.produce, site, broker, topic, partition, batch, acks, timeout_s, reply))
            return
        answer = partial(self._answer, site, broker, reply)
        replica = self.replicas[broker].get((topic, partition))
        lead = replica.lead if replica is not None else None
        if replica is None or lead is None:
            answer(Produced(NOT_LEADER if replica is not None or self._named(broker, topic, partition) else UNKNOWN))
            return
        if acks == -1 and len(lead.isr) < replica.partition.min_isr:
            answer(Produced(errors.NOT_ENOUGH_REPLICAS))
            return
        if batch.producer_id >= 0:
            error, known = self._admit(replica, lead, batch)
            if error:
                answer(Produced(error))
                return
            if known is not None:
                self._taken_for(replica, batch, known[0])
                self._acknowledge(replica, known[0], known[0] + len(batch.records), known[1], acks, timeout_s, answer)
                return
        write = partial(self._write, replica, batch, acks, timeout_s, answer)
        if self.bugs and bugs.hold_back(replica, batch, write):
            return
        write()
        if replica.partition.held:
            bugs.release(replica, batch.producer_id)

    def _named(self, broker: int, topic: str, partition: int) -> bool:
        known = self.metadata(broker).topics.get(topic)
        return known is not None and partition < len(known.partitions)

    def _admit(self, replica: Replica, lead: Leadership[Replica], batch: Batch) -> tuple[int, tuple[int, int] | None]:
        error, known = lead.producers.check(batch)
        unchecked = "sequence-unchecked" in self.bugs or bugs.overtakes(replica, batch)
        if error == errors.OUT_OF_ORDER_SEQUENCE_NUMBER and unchecked:
            error = 0
        tid = batch.transactional_id
        if tid is None:
            return error, known
        if error and self.transactions.lets_in(tid, batch.producer_epoch):
            return 0, None
        if not error and known is None and self.verify_transactions and batch.producer_id not in lead.producers.open:
            error = self.transactions.verify(replica, tid, batch.producer_id, batch.producer_epoch)
        return error, known

    def _taken_for(self, replica: Replica, batch: Batch, offset: int) -> None:
        """Tell of a batch that is taken for another one: its producer got an epoch that a coordinator had forgotten."""
        there, lead = replica.log.record(offset), replica.lead
        if lead is not None and there is not None and there.key != batch.records[0][0]:
            replica.partition.tell_lost(self._records(replica, batch, lead.epoch, offset), "never written")

    def _write(self, replica: Replica, batch: Batch, acks: int, timeout_s: float, answer: Reply) -> None:
        lead, partition = replica.lead, replica.partition
        if lead is None:
            answer(Produced(NOT_LEADER))
            return
        base = replica.log.end
        records = self._records(replica, batch, lead.epoch, base)
        if self.bugs:
            lie = bugs.lie_about(replica, batch, records)
            if lie is not None:
                answer(lie)
                return
        replica.append(records)
        lead.producers.note(records)
        if self.bugs:
            bugs.damage(replica, records)
            more = bugs.copied(replica, records)
            if more:
                replica.append(more)
                lead.producers.note(more)
        replica.advance()
        self._acknowledge(replica, base, base + len(records), records[0].timestamp_ms, acks, timeout_s, answer)
        self.changed(partition)

    def _records(self, replica: Replica, batch: Batch, epoch: int, base: int) -> list[Record]:
        now, pid, producer_epoch = self.schedule.now, batch.producer_id, batch.producer_epoch
        first, transactional = batch.first_sequence, batch.transactional_id is not None
        stamp = self.wall_ms() if replica.partition.settings.append_time else None
        return [
            Record(
                base + at, epoch, key, value, timestamp_ms if stamp is None else stamp, pid, producer_epoch,
                (first + at) & 0x7FFFFFFF if first >= 0 else -1, transactional, None, now, base,
            )
            for at, (key, value, timestamp_ms) in enumerate(batch.records)
        ]  # fmt: skip

    def _acknowledge(
        self, replica: Replica, offset: int, end: int, timestamp_ms: int, acks: int, timeout_s: float, answer: Reply
    ) -> None:
        if acks == 0:
            return
        if acks == 1:
            answer(Produced(0, offset, timestamp_ms))
            return

        def done(error: int) -> None:
            answer(Produced(error) if error else Produced(0, offset, timestamp_ms))

        replica.await_commit(end, timeout_s, done)

    def _led(
        self, site: str, broker: int, topic: str, partition: int, current_epoch: int
    ) -> tuple[int, Replica | None]:
        if not self.reaches(site, broker):
            return errors.NETWORK_EXCEPTION, None
        replica = self.replicas[broker].get((topic, partition))
        if replica is None:
            return (NOT_LEADER if self._named(broker, topic, partition) else UNKNOWN), None
        if 0 <= current_epoch != replica.epoch:
            older = current_epoch < replica.epoch
            return (errors.FENCED_LEADER_EPOCH if older else errors.UNKNOWN_LEADER_EPOCH), None
        return (0, replica) if replica.lead is not None else (NOT_LEADER, None)

    def fetch(
        self, site: str, broker: int, topic: str, partition: int, offset: int, *, isolation: Isolation,
        current_epoch: int = -1, last_epoch: int = -1, most: int = 1000,
    ) -> Fetched:  # fmt: skip
        """Read from ``offset`` on what is committed; see Fetched."""
        error, replica = self._led(site, broker, topic, partition, current_epoch)
        if replica is None or replica.lead is None:
            return Fetched(error)
        log, producers = replica.log, replica.lead.producers
        end = _visible_end(replica, replica.lead, isolation)
        if last_epoch >= 0:
            known, until = log.end_of_epoch(last_epoch)
            if known < 0 or last_epoch > log.epochs[-1][0]:
                return Fetched(errors.OFFSET_OUT_OF_RANGE, end=end, start=log.start)
            if known < last_epoch or until < offset:
                return Fetched(0, (), offset, end, log.start, (known, until))
        if offset < log.start or offset > log.end:
            return Fetched(errors.OFFSET_OUT_OF_RANGE, end=end, start=log.start)
        stop = min(end, offset + most)
        if offset >= stop:
            return Fetched(0, (), offset, end, log.start)
        records = log.records[offset - log.base : stop - log.base]
        if producers.transactional:
            records = [one for one in records if one.control is None]
            if isolation == "read_committed" and producers.aborted:
                shown = replica.partition.shown
                wrong = [one for one in records if shown and producers.is_aborted(one) and _shown(shown, one)]
                self.shown += [(replica.partition.topic_id, partition, one) for one in wrong]
                records = [one for one in records if one in wrong or not producers.is_aborted(one)]
        hidden = replica.partition.hidden
        if hidden:
            records = [one for one in records if id(one) not in hidden]
        return Fetched(0, records, stop, end, log.start)

    def list_offset(
        self, site: str, broker: int, topic: str, partition: int, which: Literal["earliest", "latest"],
        isolation: Isolation,
    ) -> Listing:  # fmt: skip
        """Return the first offset, or the one behind the last that a reader of this isolation may see."""
        error, replica = self._led(site, broker, topic, partition, -1)
        if replica is None or replica.lead is None:
            return Listing(error)
        if which == "earliest":
            start = max(min(replica.log.start + (self.starts_too_high or 0), replica.hw), replica.log.start)
            return Listing(0, start, _epoch_at(replica.log))
        if replica.hw < replica.lead.start:
            return Listing(errors.OFFSET_NOT_AVAILABLE)
        end = _visible_end(replica, replica.lead, isolation) - (self.ends_too_low or 0)
        return Listing(0, max(end, replica.log.start), replica.lead.epoch)


def _visible_end(replica: Replica, lead: Leadership[Replica], isolation: Isolation) -> int:
    """Return the offset behind the last that a reader may see.

    A transaction that began below the log's start leaves the last stable offset there.
    """
    if isolation == "read_uncommitted":
        return replica.hw
    return max(lead.producers.stable(replica.hw), replica.log.start)


def _epoch_at(log: Log) -> int:
    return log.epochs[0][0] if log.epochs and log.epochs[0][1] <= log.start else -1


def _shown(ranges: list[tuple[int, int, int]], record: Record) -> bool:
    return any(number == record.producer_id and first <= record.offset < end for number, first, end in ranges)
