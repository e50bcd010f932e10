"""Reading in a simulated life: processes of the history, the canary's tails, and its re-reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from canary import facts as f
from simulation.histories.clockwork import BASE_NS, MS, RC, RU, TOPIC, Clockwork, Found, Process

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canary.anomalies.violation import RereadRequest
    from simulation.histories.kafka import Entry, Log


class Reading(Clockwork):
    """What consumers do."""

    def assign(self, process: Process) -> None:
        """Note in the history what a process reads."""
        keys = [log.key for log in self.logs]
        self.record(process.number, "invoke", "assign", keys)
        self.record(process.number, "ok", "assign", keys)

    def poll_by(self, positions: dict[int, int], limit: int, partitions: Sequence[int] | None = None) -> dict[str, Any]:
        """Read on from ``positions``, which are moved."""
        polled: dict[str, Any] = {}
        for p in partitions if partitions is not None else self.random.sample(range(len(self.logs)), len(self.logs)):
            if p not in positions:
                continue
            found, positions[p] = self.logs[p].read(positions[p], limit, RC)
            found = [(offset, entry) for offset, entry in found if not entry.corrupt]
            if found or self.random.random() < 0.1:
                polled[self.logs[p].key] = [[offset, entry.value] for offset, entry in found]
        return polled

    def perhaps_wrong(self, who: str, log: Log, found: Found, last: tuple[int, Entry] | None) -> Found:
        """Return what is handed out instead of ``found``: the same, unless an injection waits for its moment."""
        if who in self.missteps:
            wrong = self.missteps[who](log, found, last)
            if wrong is not None:
                del self.missteps[who]
                return wrong
        return found

    def polling(self, process: Process) -> None:  # noqa: C901  # one poll and all that may come of it
        """One process polls what it has assigned."""
        if self.stopping:
            return
        if process.incarnation != self.incarnation:
            self.replace(process)
        self.record(process.number, "invoke", "poll", [["poll"]])
        positions = dict(process.positions)
        logs = self.logs

        def complete() -> None:
            if logs is not self.logs:
                self.record(process.number, "info", "poll", [["poll"]])
                self.replace(process)
                self.polling(process)
                return
            kind = self.random.choices(["ok", "fail", "info"], [94, 4, 2])[0]
            polled: dict[str, Any] = {}
            last: dict[int, tuple[int, Entry] | None] = {}
            for log in self.random.sample(self.logs, len(self.logs)):
                p = log.partition
                found, positions[p] = log.read(positions[p], self.random.randint(1, 12), RC)
                found = [(offset, entry) for offset, entry in found if not entry.corrupt]
                if found:
                    last[p] = found[-1]
                if kind == "ok" and process is self.main:
                    found = self.perhaps_wrong("history", log, found, process.last.get(p))
                if found or self.random.random() < 0.1:
                    polled[log.key] = [[offset, entry.value] for offset, entry in found]
                if not found and log.key in polled:
                    last[p] = None  # an empty list: from here on nobody knows where it stood
            self.record(process.number, kind, "poll", [["poll", polled]])
            if kind == "ok":
                process.positions = positions
                process.last = {p: e for p, e in (process.last | last).items() if e is not None}
            elif kind == "info":
                self.replace(process)
            self.at(self.ms(2, 120), lambda: self.polling(process))

        self.at(self.ms(0.2, 15), complete)

    def subscribe(self, process: Process) -> None:
        """Subscribe to every key there is."""
        process.incarnation = self.incarnation
        for kind in ("invoke", "ok"):
            self.record(process.number, kind, "subscribe", [log.key for log in self.logs])

    def group_polling(self, process: Process) -> None:
        """One of the group's processes polls the partitions it owns; a rebalance may come in between."""
        if self.stopping:
            return
        if process.incarnation != self.incarnation:
            self.subscribe(process)
        self.record(process.number, "invoke", "poll", [["poll"], ["poll"]])
        positions = {p: self.group[p] for p, owner in self.group_owner.items() if owner == process.number}
        logs = self.logs

        def complete() -> None:
            if logs is not self.logs:
                self.record(process.number, "fail", "poll", [["poll"], ["poll"]])
                self.group_polling(process)
                return
            first = self.poll_by(positions, self.random.randint(1, 5))
            more: dict[str, Any] = {}
            if self.random.random() < 0.2:
                taken = self.random.sample(sorted(self.group_owner), self.random.randint(1, len(self.group_owner)))
                for p in taken:  # taken away or given (back): it begins at what the group has committed
                    self.group_owner[p] = process.number
                    positions[p] = self.group[p]
                more["rebalance_log"] = [{"keys": [self.logs[p].key for p in taken]}]
            second = self.poll_by(positions, self.random.randint(1, 5))
            self.record(process.number, "ok", "poll", [["poll", first], ["poll", second]], **more)
            for p, position in positions.items():
                if self.group_owner[p] == process.number:
                    self.group[p] = max(self.group[p], position)
            self.at(self.ms(2, 120), lambda: self.group_polling(process))

        self.at(self.ms(0.2, 15), complete)

    # reading, as the canary does

    def tailing(self, consumer: str) -> None:
        """A tail consumer of the canary reads on, again and again until the end of the world."""
        for p in self.random.sample(range(len(self.logs)), self.random.randint(1, len(self.logs))):
            self.tail(consumer, p, self.random.randint(1, 20))
        if not self.stopping:
            self.at(self.ms(2, 60), lambda: self.tailing(consumer))

    def tail(self, consumer: str, p: int, limit: int) -> None:
        """Let a tail consumer of the canary read on."""
        if self.gone:
            return
        log = self.logs[p]
        position = self.tails[consumer, p]
        if not log.start <= position <= log.end:
            self.fact(f.OutOfRange, consumer, consumer, TOPIC, p, position, "_AUTO_OFFSET_RESET")
            self.tail_last.pop(p, None)
            position = log.start if position < log.start else log.end
            self.fact(f.Positioned, consumer, consumer, TOPIC, p, position, "reset", self.known_id)
        found, self.tails[consumer, p] = log.read(position, limit, consumer)
        if consumer == RC:
            last = self.tail_last.get(p)
            self.tail_last |= {p: found[-1]} if found else {}
            found = self.perhaps_wrong("facts", log, found, last)
        self.deliver(consumer, consumer, p, found)
        bound = log.end if consumer == RU else log.stable
        if self.tails[consumer, p] >= bound:
            self.fact(f.EndOfPartition, consumer, consumer, TOPIC, p, self.tails[consumer, p])

    def deliver(self, consumer: str, isolation: str, p: int, found: list[tuple[int, Entry]]) -> None:
        """Give a consumer of the canary what was found."""
        for offset, entry in found:
            if entry.corrupt:
                self.fact(f.Refused, consumer, isolation, TOPIC, p, offset, "corrupt", "checksum", self.logs[p].epoch)
                continue
            if entry.value is None:
                raise ValueError(f"a marker at {offset} is delivered")
            identity = self.identities[entry.value]
            sent_at = self.sent_at.get(entry.value, self.now)
            self.fact(
                f.Polled,
                consumer,
                isolation,
                TOPIC,
                p,
                offset,
                identity.producer_id,
                identity.generation,
                identity.sequence,
                entry.transaction and entry.transaction.transaction_id,
                (BASE_NS + sent_at) // MS,
                BASE_NS + sent_at,
                self.logs[p].epoch,
            )

    def answer(self, request: RereadRequest) -> None:
        """Answer a re-read from the log as it is now."""
        log = self.logs[request.partition]
        consumer = f"reread-{request.request_id}"
        if self.gone:
            place = (request.isolation, TOPIC, request.partition, request.start, request.end)
            self.fact(f.RereadEnded, request.request_id, *place, request.start, False, "UNKNOWN_TOPIC_OR_PART")
            return
        start = max(request.start, log.start)
        if start > request.start:
            self.fact(f.Positioned, consumer, request.isolation, TOPIC, request.partition, start, "log start")
        bound = min(request.end, log.end if request.isolation == RU else log.stable)
        found, _ = log.read(start, log.end, request.isolation)
        self.deliver(consumer, request.isolation, request.partition, [(o, e) for o, e in found if o < bound])
        complete = bound == request.end
        error = None if complete else f"end of log at {bound}"
        reached = max(start, bound)
        self.fact(
            f.RereadEnded,
            request.request_id,
            request.isolation,
            TOPIC,
            request.partition,
            request.start,
            request.end,
            reached,
            complete,
            error,
        )
