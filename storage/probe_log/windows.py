"""The probe log's rows of some hours, as a Jepsen history and as acknowledged but unread probes over time."""

import heapq
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count, groupby
from typing import Any

from canary.history.operation import Operation
from storage.probe_log.errors import ProbeLogError

MOST_ROWS = 2_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class WindowTooLargeError(ProbeLogError):
    """More rows than a window may have. Exit status 2."""


@dataclass(frozen=True, slots=True)
class Window:
    """Asks for probes sent and polls made in [begin_ns, end_ns), of a cluster, or of one topic or partition of it."""

    cluster: str
    begin_ns: int
    end_ns: int
    topic: str | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class WindowRows:
    """Rows of the three tables; an identity has one row in ``probes``, the one that counts (RECONCILIATION rule 15)."""

    probes: Sequence[Mapping[str, Any]]
    transactions: Sequence[Mapping[str, Any]]
    polls: Sequence[Mapping[str, Any]]


def moment(ns: int) -> datetime:
    """Return ns since the epoch as the probe log's times."""
    return _EPOCH + timedelta(microseconds=ns // 1000)


def nanoseconds(when: datetime) -> int:
    """Return a time of the probe log in ns since the epoch."""
    since = when - _EPOCH
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000


def as_history(rows: WindowRows) -> Iterator[Operation]:
    """Yield the rows as a history, in real-time order.

    * Each producer has as many processes as it had sends in flight at once. A send is one operation, and so is all that
      one transaction sent.
    * Each consumer is one process. It begins with an assign of its keys; the records it received at one moment are one
      poll.
    * Keys are "topic-partition" (with the topic's id if the window holds several incarnations), values are
      "producer/generation/partition/sequence".

    Of a partition with transactions the history has read_committed consumers only: the others rightly read aborted
    records.
    """
    key_of = _keys([*rows.probes, *rows.polls])
    processes = _Processes()
    moments = [*_sends(rows, key_of, processes), *_polls(rows, key_of, processes)]
    first = min((at for at, _, _ in moments), default=0)
    for index, (at, _, fields) in enumerate(sorted(moments, key=lambda one: one[:2])):
        yield Operation(index=index, time=at - first, **fields)


Moment = tuple[int, int, dict[str, Any]]
"""When (ns), the rank among what is at the same time, and the operation's fields."""


class _Processes:
    """Numbers for processes: an idle one is used again, a crashed one never."""

    def __init__(self) -> None:
        self.numbers = count()
        self._busy: dict[Any, list[tuple[int, int]]] = defaultdict(list)
        self._free: dict[Any, list[int]] = defaultdict(list)

    def take(self, owner: Any, begin: int, end: int | None) -> int:
        """Return a process of ``owner`` that is idle from ``begin`` on, busy until ``end`` (None: for ever)."""
        busy, free = self._busy[owner], self._free[owner]
        while busy and busy[0][0] < begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        process = heapq.heappop(free) if free else next(self.numbers)
        if end is not None:
            heapq.heappush(busy, (end, process))
        return process


def _sends(rows: WindowRows, key_of: Any, processes: _Processes) -> Iterator[Moment]:
    ended = {transaction_of(row): row for row in rows.transactions}
    groups: dict[Any, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows.probes:
        producer = (row["producer_id"], row["generation"])
        alone = ("alone", row["partition"], row["sequence"])
        groups[*producer, alone if row["transaction_id"] is None else row["transaction_id"]].append(row)
    begun = sorted(groups.items(), key=lambda one: min(row["sent_at"] for row in one[1]))
    for name, members in begun:
        begin = nanoseconds(min(row["sent_at"] for row in members))
        if members[0]["transaction_id"] is None:
            function, outcome, end, error = "send", members[0]["outcome"], members[0]["acked_at"], members[0]["error"]
        else:
            row = ended.get(name, {})
            function, outcome = "txn", row.get("outcome")
            end, error = row.get("ended_at"), row.get("error")
        kind = {"acked": "ok", "committed": "ok", "failed": "fail", "aborted": "fail"}.get(str(outcome), "info")
        end_ns = max(begin, nanoseconds(end)) if end is not None else begin
        process = processes.take(name[:2], begin, None if kind == "info" else end_ns)
        asked = [["send", key_of(row), _value(row)] for row in members]
        answered = [["send", key_of(row), [row["offset"], _value(row)]] for row in members] if kind == "ok" else asked
        yield begin, 1, {"process": process, "type": "invoke", "f": function, "value": asked}
        yield end_ns, 2, {"process": process, "type": kind, "f": function, "value": answered, "error": error}


def _polls(rows: WindowRows, key_of: Any, processes: _Processes) -> Iterator[Moment]:
    transactional = {key_of(row) for row in rows.probes if row["transaction_id"] is not None}
    shown = [row for row in rows.polls if row["isolation"] == "read_committed" or key_of(row) not in transactional]
    by_consumer = sorted(shown, key=lambda row: (row["consumer_id"], row["polled_at"], key_of(row), row["offset"]))
    for _, records in groupby(by_consumer, key=lambda row: row["consumer_id"]):
        polls = [(at, list(group)) for at, group in groupby(records, key=lambda row: row["polled_at"])]
        process = next(processes.numbers)
        keys = sorted({key_of(row) for _, group in polls for row in group})
        begin = nanoseconds(polls[0][0])
        for kind in ("invoke", "ok"):
            yield begin, 0, {"process": process, "type": kind, "f": "assign", "value": keys}
        for at, group in polls:
            read = {key: [[row["offset"], _value(row)] for row in own] for key, own in groupby(group, key=key_of)}
            yield nanoseconds(at), 3, {"process": process, "type": "invoke", "f": "poll", "value": [["poll"]]}
            yield nanoseconds(at), 3, {"process": process, "type": "ok", "f": "poll", "value": [["poll", read]]}


def _value(row: Mapping[str, Any]) -> str:
    return f"{row['producer_id']}/{row['generation']}/{row['partition']}/{row['sequence']}"


def _keys(rows: Iterable[Mapping[str, Any]]) -> Any:
    ids: dict[str, set[str]] = defaultdict(set)
    for row in rows:  # without an id are rows from before the brokers told it: of the one incarnation that there is
        if row["topic_id"] is not None:
            ids[row["topic"]].add(row["topic_id"])
    several = {topic for topic, found in ids.items() if len(found) > 1}

    def key_of(row: Mapping[str, Any]) -> str:
        own = f"@{row['topic_id'] or ''}" if row["topic"] in several else ""
        return f"{row['topic']}{own}-{row['partition']}"

    return key_of


@dataclass(frozen=True, slots=True)
class Unseen:
    """At ``at_ns``: how many acknowledged probes were unread, and the age of the oldest of them in s."""

    at_ns: int
    count: int
    oldest_s: float


def unseen_over_time(rows: WindowRows, times: Sequence[int]) -> dict[tuple[str, int, str], list[Unseen]]:
    """Return, by (topic, partition, consumer), what was acknowledged and not yet read at each of ``times`` (ns).

    Every consumer that read anything in the window counts for each partition. Records of aborted and undecided
    transactions do not count.
    """
    committed = {transaction_of(row) for row in rows.transactions if row["outcome"] == "committed"}
    consumers = sorted({row["consumer_id"] for row in rows.polls})
    first_read: dict[tuple[str, Any], int] = {}
    for row in rows.polls:
        place = (row["consumer_id"], identity_of(row))
        at = nanoseconds(row["polled_at"])
        first_read[place] = min(at, first_read.get(place, at))
    acked: dict[tuple[str, int], list[tuple[int, Any]]] = defaultdict(list)
    for row in rows.probes:
        if row["outcome"] == "acked" and (row["transaction_id"] is None or transaction_of(row) in committed):
            since = nanoseconds(row["acked_at"] or row["sent_at"])
            acked[row["topic"], row["partition"]].append((since, identity_of(row)))
    found: dict[tuple[str, int, str], list[Unseen]] = {}
    for (topic, partition), probes in sorted(acked.items()):
        for consumer in consumers:
            waits = [(since, first_read.get((consumer, who))) for since, who in probes]
            found[topic, partition, consumer] = _waiting(waits, times)
    return found


def _waiting(waits: Sequence[tuple[int, int | None]], times: Sequence[int]) -> list[Unseen]:
    """Return how many of the intervals (begin, end or None) contain each time, and the age of the oldest of them."""
    never = sorted(since for since, until in waits if until is None)
    ends = sorted((since, until) for since, until in waits if until is not None and until > since)
    points = []
    open_ones: list[tuple[int, int]] = []
    begun = 0
    for at in sorted(times):
        while begun < len(ends) and ends[begun][0] <= at:
            open_ones.append(ends[begun])
            begun += 1
        open_ones = [one for one in open_ones if one[1] > at]
        lasting = bisect_right(never, at)
        oldest = min([*(since for since, _ in open_ones), *never[: min(1, lasting)]], default=at)
        points.append(Unseen(at, len(open_ones) + lasting, (at - oldest) / 1e9))
    return points


def transaction_of(row: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return the transaction in a row of probes/ or transactions/; its last part is None for a probe without one."""
    return row["producer_id"], row["generation"], row["transaction_id"]


def identity_of(row: Mapping[str, Any]) -> tuple[int, int, int, int]:
    """Return the identity in a row of probes/ or polls/."""
    return row["producer_id"], row["generation"], row["partition"], row["sequence"]
