"""Ways to break a simulated Kafka, each with the truth of what was broken.

Each is a function of the living simulation, called at a moment of its own. What it breaks, it notes in ``injected``;
what follows from that (a lost write is also unseen) is in ECHOES.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from canary import facts as f
from canary.probe.identity import Identity
from simulation.histories.clockwork import MS, RC, RU, Injected
from simulation.histories.kafka import Entry, Log, Transaction
from simulation.histories.twists import Fracture, Leak, Undead, note

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulation.histories.cluster import Simulator

Misstep = tuple[list[tuple[int, Entry]], tuple[int, Entry]]


def _write(life: Simulator, place: Callable[[Log, int], int], kind: str = "ok") -> None:
    """Let a process and a producer of its own send one message, and put it where ``place`` says."""
    log = life.random.choice(life.logs)
    p, process = log.partition, 5000 + len(life.operations)
    value = life.new_value(life.injector, p)
    life.sent(life.injector, p, value)
    life.record(process, "invoke", "send", [["send", log.key, value]])
    offset = place(log, value)
    if kind == "fail":
        life.outcome(f.Failed, value, "QUEUE_FULL")
        life.record(process, "fail", "send", [["send", log.key, value]])
    else:
        life.acked(value, offset)
        life.record(process, "ok", "send", [["send", log.key, [offset, value]]])


def lost_write(life: Simulator) -> None:
    """Acknowledged, and not there."""

    def place(log: Log, value: int) -> int:
        offset = log.append(None)
        note(life, "lost-write", log, offset, value)
        return offset

    _write(life, place)


def duplicate(life: Simulator) -> None:
    """Appended twice, as by a retry that nobody deduplicates."""

    def place(log: Log, value: int) -> int:
        offset = log.append(value)

        def again() -> None:
            note(life, "duplicate", log, log.append(value), value)

        life.at(life.ms(1, 200), again)
        return offset

    _write(life, place)


def inconsistent_offsets(life: Simulator) -> None:
    """Two acknowledgements for one offset; the second message stands there, the first is lost."""

    def place(log: Log, value: int) -> int:
        offset = log.append(value)
        note(life, "inconsistent-offsets", log, offset, None)
        note(life, "lost-write", log, offset, value)
        other = life.new_value(life.injector, log.partition)
        process = 6000 + len(life.operations)
        life.sent(life.injector, log.partition, other)
        life.record(process, "invoke", "send", [["send", log.key, other]])
        log.entries[offset] = Entry(other)
        life.acked(other, offset)
        life.record(process, "ok", "send", [["send", log.key, [offset, other]]])
        return offset

    _write(life, place)


def aborted_read_of_send(life: Simulator) -> None:
    """A send failed for certain, and its message is there."""

    def place(log: Log, value: int) -> int:
        offset = log.append(value)
        note(life, "G1a", log, offset, value)
        return offset

    _write(life, place, "fail")


def corrupt(life: Simulator) -> None:
    """What is stored is not what was sent. A history only sees that it does not come."""

    def place(log: Log, value: int) -> int:
        offset = log.append(value)
        entry = log.message(offset)
        entry.corrupt = True
        note(life, "corrupt", log, offset, value, history=False)
        note(life, "lost-write", log, offset, value, facts=False)
        return offset

    _write(life, place)


def phantom(life: Simulator) -> None:
    """A message that nobody sent: its sequence is far beyond what its producer came to."""
    log = life.random.choice(life.logs)
    producer = life.injector
    value = 1_000_000 + len(life.operations)
    identity = Identity(producer.producer_id, producer.generation, log.partition, 100_000 + value)
    life.identities[value], life.homes[identity], life.sent_at[value] = identity, log.key, life.now
    offset = log.append(value)
    note(life, "phantom", log, offset, value)
    life.tail(RU, log.partition, log.end + 1)


def truncation(life: Simulator) -> None:
    """The end of the log is cut below an acknowledged message, and the offset is used again."""

    def place(log: Log, value: int) -> int:
        offset = log.append(value)

        def cut() -> None:
            life.tail(RC, log.partition, log.end + 1)
            life.tail(RU, log.partition, log.end + 1)
            log.cut(offset)
            log.append(life_value)
            note(life, "truncation", log, offset, None, history=False)
            note(life, "inconsistent-offsets", log, offset, None, facts=False)

        life_value = life.new_value(life.injector, log.partition)
        life.sent(life.injector, log.partition, life_value)
        process = 7000 + len(life.operations)
        life.record(process, "invoke", "send", [["send", log.key, life_value]])
        life.record(process, "info", "send", [["send", log.key, life_value]])
        life.outcome(f.Indeterminate, life_value, "_MSG_TIMED_OUT")
        life.acked(value, offset)
        cut()
        return offset

    _write(life, place)


def nonmonotonic_send(life: Simulator) -> None:
    """A process sends twice, one after the other, and the second lands before the first."""
    _swap(life, together=False)


def int_nonmonotonic_send(life: Simulator) -> None:
    """Two sends of one operation land in the wrong order."""
    _swap(life, together=True)


def _swap(life: Simulator, *, together: bool) -> None:
    producer = life.injector
    log = life.random.choice(life.logs)
    p, process = log.partition, 8000 + len(life.operations)
    first, second = life.new_value(producer, p), life.new_value(producer, p)
    life.sent(producer, p, first)
    invoked = [["send", log.key, v] for v in (first, second)]
    low, high = log.append(second), log.append(first)
    done = [["send", log.key, [high, first]], ["send", log.key, [low, second]]]
    if together:
        life.record(process, "invoke", "send", invoked)
        life.sent(producer, p, second)
    else:
        life.record(process, "invoke", "send", invoked[:1])
        life.record(process, "ok", "send", done[:1])
    life.acked(first, high)
    if not together:
        life.sent(producer, p, second)
        life.record(process, "invoke", "send", invoked[1:])
    life.acked(second, low)
    life.record(process, "ok", "send", done if together else done[1:])
    kind = "int-nonmonotonic-send" if together else "nonmonotonic-send"
    note(life, kind, log, low, second, facts=False)
    note(life, "nonmonotonic-send", log, low, second, history=False)


def precommitted_read(life: Simulator) -> None:
    """See Leak."""
    life.twists.append(Leak())


def fractured_transaction(life: Simulator) -> None:
    """See Fracture."""
    life.twists.append(Fracture())


def aborted_read_of_transaction(life: Simulator) -> None:
    """See Undead."""
    life.twists.append(Undead())


def _misstep(kind: str, found: list[tuple[int, Entry]], last: tuple[int, Entry] | None) -> Misstep | None:
    """Return (what is handed out, the message that this is about), or None: not possible with what there is."""
    if any(entry.corrupt for _, entry in [*found, *([last] if last is not None else [])]):
        return None
    match kind:
        case "int-poll-skip" if len(found) > 2:
            return [found[0], *found[2:]], found[1]
        case "int-nonmonotonic-poll" if len(found) > 1:
            return [*found[:2], *found[1:]], found[1]
        case "poll-skip" if len(found) > 1 and last is not None:
            return found[1:], found[0]
        case "nonmonotonic-poll" if last is not None:
            return [last, *found], last
    return None


def _consumer_errs(kind: str) -> Callable[[Simulator], None]:
    def inject(life: Simulator) -> None:
        def by(lens: str) -> Callable[[Log, list[tuple[int, Entry]], tuple[int, Entry] | None], Any]:
            def err(log: Log, found: list[tuple[int, Entry]], last: tuple[int, Entry] | None) -> Any:
                misstep = _misstep(kind, found, last)
                if misstep is None:
                    return None
                handed_out, (offset, entry) = misstep
                note(life, kind, log, offset, entry.value, history=lens == "history", facts=lens == "facts")
                return handed_out

            return err

        life.missteps["history"] = by("history")
        if not kind.startswith("int-"):
            life.missteps["facts"] = by("facts")

    inject.__doc__ = f"A consumer of the history (and one of the canary): {kind}."
    return inject


def zombie_write(life: Simulator) -> None:
    """A transactional producer's older generation appends after it was fenced, and readers see it."""
    producer = life.producers[2]
    log = life.random.choice(life.logs)
    value = life.new_value(producer, log.partition)
    producer.transaction_id += 1
    transaction = Transaction(producer.transaction_id)
    life.fact(f.TransactionBegan, producer.mode, producer.producer_id, producer.generation, transaction.transaction_id)
    life.sent(producer, log.partition, value, transaction.transaction_id)
    life.restart()

    generation = producer.generation

    def append() -> None:
        written = (life.identities[e.value] for e in log.entries if e is not None and e.value is not None)
        if any(i.producer_id == producer.producer_id and i.generation >= generation for i in written):
            offset = log.append(value, transaction)
            entry = log.message(offset)
            entry.leaked = True
            note(life, "zombie-write", log, offset, value, history=False)
        elif not life.stopping:  # before its successor has written, nobody can tell it from what was in flight
            life.at(100 * MS, append)

    process = 9000 + len(life.operations)
    life.record(process, "invoke", "send", [["send", log.key, value]])
    life.record(process, "info", "send", [["send", log.key, value]])
    life.at(300 * MS, append)


def early_expiry(life: Simulator) -> None:
    """The start of the log passes what is young and was promised (and was read before, so that no history minds)."""
    log = life.random.choice(life.logs)
    start = min(life.tails[RC, log.partition], life.main.positions.get(log.partition, 0))
    gone = [e.value for e in log.entries[log.start : start] if e is not None and e.value is not None]
    if any(life.identities[value].generation >= life.first_generation for value in gone):
        log.start = start
        note(life, "early-expiry", log, start, None, history=False)


def write_cycle(life: Simulator) -> None:
    """Two transactions write to two keys, in opposite orders."""
    x, y, process, n = "g0x", "g0y", 20_000 + len(life.operations), 2_000_000 + 10 * len(life.operations)
    for number, (a, b) in enumerate((((x, n), (y, n + 1)), ((x, n + 2), (y, n + 3)))):
        life.record(process + number, "invoke", "txn", [["send", *a], ["send", *b]])
    base = 10 * len(life.operations)
    life.record(process, "ok", "txn", [["send", x, [base, n]], ["send", y, [base + 1, n + 1]]])
    life.record(process + 1, "ok", "txn", [["send", x, [base + 1, n + 2]], ["send", y, [base, n + 3]]])
    life.record(process + 2, "invoke", "poll", [["poll"]])
    polled = {x: [[base, n], [base + 1, n + 2]], y: [[base, n + 3], [base + 1, n + 1]]}
    life.record(process + 2, "ok", "poll", [["poll", polled]])
    life.injected.append(Injected("G0", x, 0, base, n, None, facts=False))


def circular_information_flow(life: Simulator) -> None:
    """Two to four transactions in a circle, each polling what the one before it sent."""
    size = life.random.randint(2, 4)
    process, n = 30_000 + len(life.operations), 3_000_000 + 10 * len(life.operations)
    keys = [f"g1c{i}" for i in range(size)]
    base = 10 * len(life.operations)
    for i in range(size):
        life.record(process + i, "invoke", "txn", [["send", keys[i], n + i], ["poll"]])
    for i in range(size):
        j = (i - 1) % size
        life.record(process + i, "ok", "txn", [["send", keys[i], [base, n + i]], ["poll", {keys[j]: [[base, n + j]]}]])
    life.injected.append(Injected("G1c", keys[0], 0, base, n, None, facts=False))


_LOST = frozenset({"unseen", "poll-skip", "int-poll-skip"})
ECHOES: dict[str, frozenset[str]] = {
    "lost-write": _LOST,
    "fractured-transaction": _LOST | {"lost-write"},  # when nobody was told of the commit, and a read proves it
    "corrupt": _LOST,
    "precommitted-read": _LOST | {"lost-write"},  # when the runner dies before the commit: read, and yet aborted
    "duplicate": frozenset({"poll-skip", "int-poll-skip", "nonmonotonic-poll", "int-nonmonotonic-poll"}),
    "inconsistent-offsets": frozenset({"unseen", "lost-write"}),
    "truncation": frozenset({"unseen", "lost-write"}),
    "early-expiry": frozenset({"poll-skip", "int-poll-skip"}),
}
"""What else a history shows when this was injected: the same thing from other sides."""

INJECTIONS: dict[str, Callable[[Simulator], None]] = {
    "lost-write": lost_write,
    "duplicate": duplicate,
    "inconsistent-offsets": inconsistent_offsets,
    "G1a": aborted_read_of_send,
    "G1a-transaction": aborted_read_of_transaction,
    "precommitted-read": precommitted_read,
    "fractured-transaction": fractured_transaction,
    "nonmonotonic-send": nonmonotonic_send,
    "int-nonmonotonic-send": int_nonmonotonic_send,
    "corrupt": corrupt,
    "phantom": phantom,
    "truncation": truncation,
    "zombie-write": zombie_write,
    "early-expiry": early_expiry,
    **{
        kind: _consumer_errs(kind)
        for kind in ("poll-skip", "nonmonotonic-poll", "int-poll-skip", "int-nonmonotonic-poll")
    },
    "G0": write_cycle,
    "G1c": circular_information_flow,
}
