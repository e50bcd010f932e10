"""Which transactional ids it takes to probe every transaction coordinator.

The coordinator of an id is the leader of the partition of ``__transaction_state`` that the id hashes to, as Java hashes
strings. So one id tests one coordinator: with a single id, a cluster whose other coordinators are broken looks healthy.
"""

from collections.abc import Mapping, Sequence

STATE_TOPIC = "__transaction_state"
_CANDIDATES = 10_000


def java_hash(text: str) -> int:
    """Return Java's String.hashCode(): a signed 32-bit number.

    >>> java_hash("hello"), java_hash("polygenelubricants")
    (99162322, -2147483648)
    """
    units = text.encode("utf-16-be")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (value * 31 + (high << 8 | low)) & 0xFFFF_FFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def state_partition(transactional_id: str, partitions: int) -> int:
    """Return the partition of ``__transaction_state`` that is responsible for an id (Kafka's Utils.abs modulo)."""
    value = java_hash(transactional_id)
    return (0 if value == -(1 << 31) else abs(value)) % partitions


def missed(leaders: Mapping[int, int], present: Sequence[str]) -> list[int]:
    """Return the brokers that are coordinators and that none of the ids ``present`` meets, in order."""
    met = {leaders.get(state_partition(one, len(leaders))) for one in present} if leaders else set()
    return sorted({*leaders.values()} - {-1} - met)


def choose(prefix: str, leaders: Mapping[int, int], present: Sequence[str], most: int) -> list[str]:
    """Return the ids to use: those ``present``, which stay, and as many more as it takes to meet every coordinator.

    An id is ``prefix`` and a number; there are at most ``most``. ``leaders`` has the leader of each partition of
    ``__transaction_state`` (-1: none at the moment); empty: not known.
    """
    chosen = list(present)
    if not leaders:
        return chosen or [f"{prefix}0"]
    covered = {leaders.get(state_partition(one, len(leaders)), -1) for one in chosen}
    for number in range(_CANDIDATES):
        if len(chosen) >= most or {-1, *leaders.values()} <= {-1, *covered}:
            break
        candidate = f"{prefix}{number}"
        broker = leaders.get(state_partition(candidate, len(leaders)), -1)
        if broker not in {-1, *covered} and candidate not in chosen:
            chosen.append(candidate)
            covered.add(broker)
    return chosen or [f"{prefix}0"]
