"""One probe to bytes and back. The layout, byte by byte, is in the docstring of canary.probe."""

import hashlib
import struct
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

from canary.probe.identity import Identity
from canary.workloads.catalogue import WORKLOADS

MAGIC: Final = b"\x93KDC"
PLAIN_VERSION, FORMED_VERSION = VERSIONS = (1, 2)
HEADER_LENGTH: Final = 64
SHORTEST: Final = 24  # of any version: length and checksum must be there
DEFAULT_LENGTH: Final = 96
LONGEST: Final = 65_528  # the largest multiple of 8 that a u16 holds

SEED: Final = 0x9E3779B97F4A7C15
PRIME: Final = 0x9FB21C651E98DF25
GAMMA: Final = 0xD1B54A32D192ED03
MASK: Final = 0xFFFF_FFFF_FFFF_FFFF

MODES: Final[dict[str, int]] = {one.name: one.number for one in WORKLOADS.values()}
MODE_NAMES: Final[dict[int, str]] = {number: name for name, number in MODES.items()}

Reason = Literal["foreign", "corrupt", "unknown-version"]
REASONS: Final[tuple[Reason, ...]] = ("foreign", "corrupt", "unknown-version")


class Form(NamedTuple):
    """What a probe looks like beside its numbers.

    ``repeated``: its padding is one word again and again, which can be compressed. ``headers``: how many Kafka headers
    it has, with values of ``header_length`` bytes (``header_fields``).
    """

    repeated: bool = False
    headers: int = 0
    header_length: int = 0


PLAIN: Final = Form()
"""Padding that cannot be compressed, no headers."""


class Probe(NamedTuple):
    """What an intact value says. ``sent_at_ns``: ns since the epoch; ``transaction_id``: None outside transactions."""

    identity: Identity
    mode: str
    transaction_id: int | None
    sent_at_ns: int
    form: Form = PLAIN


class Refusal(NamedTuple):
    """Why a value is no intact probe of ours; ``detail`` is one of a fixed few sentences."""

    reason: Reason
    detail: str


EMPTY: Final = Refusal("foreign", "it has no value")
OTHER_MAGIC: Final = Refusal("foreign", "it does not begin with the magic")
OTHER_TAG: Final = Refusal("foreign", "its tag is another's")
WRONG_LENGTH: Final = Refusal("corrupt", "its length is not the one it says")
WRONG_CHECKSUM: Final = Refusal("corrupt", "its checksum does not match")
UNKNOWN_VERSION: Final = Refusal("unknown-version", "its version is not known here")
UNKNOWN_MODE: Final = Refusal("unknown-version", "its mode is not known here")
WRONG_SHAPE: Final = Refusal("corrupt", "it holds a number that no probe has")
WRONG_PADDING: Final = Refusal("corrupt", "its padding does not follow from its identity")
WRONG_HEADERS: Final = Refusal("corrupt", "its headers are not those it was sent with")  # a reader's; not of a value
#: Every refusal there is; a batch names them by their place here, counted from 1 (0 = intact).
REFUSALS: Final = (
    EMPTY,
    OTHER_MAGIC,
    OTHER_TAG,
    WRONG_LENGTH,
    WRONG_CHECKSUM,
    UNKNOWN_VERSION,
    UNKNOWN_MODE,
    WRONG_SHAPE,
    WRONG_PADDING,
)

_LENGTH: Final = struct.Struct("<8xH6xQ")  # what stands at the same place in every version
_HEADER: Final = struct.Struct("<4s4sHBBiQqqiBBHqq")
_KEY: Final = struct.Struct("<qiiq")
_NO_TRANSACTION: Final = -1


def tag(installation: str, cluster_id: str, topic: str, topic_id: str | None) -> bytes:
    """Return the 4 bytes that mark this installation's probes in this incarnation of this topic.

    ``installation`` is the store's own id; ``topic_id`` is the incarnation, None where the cluster has none.
    """
    parts = (installation, cluster_id, topic, topic_id or "")
    text = b"".join(struct.pack("<I", len(part.encode())) + part.encode() for part in parts)
    return hashlib.blake2b(text, digest_size=4).digest()


def key(identity: Identity) -> bytes:
    """Return the Kafka key of a probe: its identity in 24 bytes."""
    return _KEY.pack(*identity)


def encode(
    identity: Identity,
    *,
    tag: bytes,
    mode: str,
    transaction_id: int | None,
    sent_at_ns: int,
    length: int = DEFAULT_LENGTH,
    form: Form = PLAIN,
) -> bytes:
    """Return the value of a probe, ``length`` bytes long.

    Raises:
        ValueError: the mode is unknown, the length impossible, or a number does not fit its field.
    """
    if mode not in MODES:
        raise ValueError(f"unknown mode {mode!r}; known are {', '.join(MODES)}")
    check_length(length)
    if len(tag) != 4:
        raise ValueError(f"a tag has 4 bytes, not {len(tag)}")
    transaction = _NO_TRANSACTION if transaction_id is None else transaction_id
    if min(identity) < 0 or transaction < _NO_TRANSACTION:
        raise ValueError(f"negative number in {identity} or transaction {transaction_id}")
    producer_id, generation, partition, sequence = identity
    padding = _padding(identity, (length - HEADER_LENGTH) // 8, repeated=form.repeated)
    number = MODES[mode]
    try:
        head = _HEADER.pack(
            MAGIC,
            tag,
            length,
            version_of(form),
            number,
            partition,
            0,
            producer_id,
            sequence,
            generation,
            *form,
            transaction,
            sent_at_ns,
        )
    except struct.error as error:
        raise ValueError(
            f"a number of {identity}, {transaction_id=}, {sent_at_ns=}, {form} does not fit: {error}"
        ) from error
    checksum = _checksum(head + padding)
    return b"".join((head[:16], checksum.to_bytes(8, "little"), head[24:], padding))


def decode(value: bytes | None, tag: bytes | None) -> Probe | Refusal:
    """Return what a record's value says, or why it is no intact probe of ours. Never raises.

    Args:
        value: as Kafka gave it; None for a tombstone.
        tag: ours; None takes any.
    """
    if not value:
        return EMPTY
    if len(value) < 8 or value[:4] != MAGIC:
        return OTHER_MAGIC
    if tag is not None and value[4:8] != tag:
        return OTHER_TAG
    return _ours(value)


def header_fields(identity: Identity, form: Form) -> list[tuple[str, bytes]]:
    """Return the Kafka headers of a probe: names h0, h1 and so on, and values that follow from its identity."""
    length = form.header_length
    content = _padding(identity, -(-form.headers * length // 8))
    return [(f"h{i}", content[i * length : (i + 1) * length]) for i in range(form.headers)]


def version_of(form: Form) -> int:
    """Return the version of the layout that a probe of this form needs: the oldest one, for the sake of old readers."""
    return PLAIN_VERSION if form == PLAIN else FORMED_VERSION


def check_length(length: int) -> None:
    """Raise ValueError unless a probe of this version can be ``length`` bytes long."""
    if length % 8 or not HEADER_LENGTH <= length <= LONGEST:
        raise ValueError(
            f"a probe's length is a multiple of 8 from {HEADER_LENGTH} to {LONGEST} bytes; {length} is none"
        )


def _ours(value: bytes) -> Probe | Refusal:
    """Judge a value that begins with magic and tag."""
    if len(value) < SHORTEST or len(value) % 8:
        return WRONG_LENGTH
    length, checksum = _LENGTH.unpack_from(value)
    if length != len(value):
        return WRONG_LENGTH
    if checksum != _checksum(value):
        return WRONG_CHECKSUM
    return _read(value)


def _read(value: bytes) -> Probe | Refusal:
    """Read a value whose length and checksum are right."""
    if value[10] not in VERSIONS:
        return UNKNOWN_VERSION
    mode = MODE_NAMES.get(value[11])
    if mode is None:
        return UNKNOWN_MODE
    if len(value) < HEADER_LENGTH:
        return WRONG_LENGTH
    _, _, _, _, _, partition, _, producer_id, sequence, generation, *shape, transaction, sent_at_ns = (
        _HEADER.unpack_from(value)
    )
    identity = Identity(producer_id, generation, partition, sequence)
    form = Form(bool(shape[0]), *shape[1:])
    misformed = shape[0] > 1 or (value[10] == PLAIN_VERSION and form != PLAIN)
    if misformed or min(identity) < 0 or transaction < _NO_TRANSACTION:
        return WRONG_SHAPE
    if value[HEADER_LENGTH:] != _padding(identity, (len(value) - HEADER_LENGTH) // 8, repeated=form.repeated):
        return WRONG_PADDING
    return Probe(identity, mode, None if transaction == _NO_TRANSACTION else transaction, sent_at_ns, form)


def _fold(words: Iterable[int]) -> int:
    h = SEED
    for word in words:
        h = ((h ^ word) * PRIME) & MASK
        h ^= h >> 32
    return h


def _checksum(value: bytes) -> int:
    words = struct.unpack(f"<{len(value) // 8}Q", value)
    return _fold((words[1], *words[3:]))


def _padding(identity: Identity, words: int, *, repeated: bool = False) -> bytes:
    start = _fold(identity)  # not negative, checked by all callers: so it equals its unsigned word
    if repeated:
        return _padding(identity, 1) * words
    padding = bytearray()
    for i in range(1, words + 1):
        word = ((start + i * GAMMA) * PRIME) & MASK
        padding += (word ^ (word >> 32)).to_bytes(8, "little")
    return bytes(padding)
