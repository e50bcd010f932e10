"""The digest of a record: 64 bits that are the same wherever they are computed, in Python, in Spark or in Java.

`digest` chains XXH64, each hash being the seed of the next, over

    1. key is null (1) + value is null (2) + number of headers (4 each), as four bytes, little endian;
    2. the key's bytes, if it is not null;
    3. the value's bytes, if it is not null;
    4. for each header in order: whether its value is null (1, else 0) as four bytes, little endian; the bytes of its
       key, UTF-8; the bytes of its value, if it is not null.

The first seed is 42, and the result is the last hash as a signed number. This is Spark's own ``xxhash64`` of the same
columns, so that the JVM computes it without Python: the expression is `spark_reconcile.tables.digests.DIGEST`. So null
and empty differ, as do a value and the same bytes in a header; XXH64 hashes lengths, so the borders of fields count.

Offset and timestamp are no part of it: a producer knows neither before the acknowledgement, and with LogAppendTime the
broker overwrites the timestamp. `place` adds both. Examples, for implementations in other languages, are
``tests/facts/digests.json``.

XXH64 finds damage and loss, not malice: whoever can write to the log can make records with the same digest.

Source: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md.
"""

from collections.abc import Iterable
from typing import Final

from xxhash import xxh64_intdigest as _hash

SEED: Final = 42
_SIGN: Final = 1 << 63
_BARE: Final = tuple(_hash(number.to_bytes(4, "little"), SEED) for number in range(4))
"""The first link for records without headers: key or value null, both, none."""
_PRESENT, _NULL = (number.to_bytes(4, "little") for number in (0, 1))


def digest(key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]] | None = ()) -> int:
    """Return a record's digest, a signed number of 64 bits; ``headers`` None is the same as none."""
    shape = (key is None) + 2 * (value is None)
    if headers:
        headers = tuple(headers)
        link = _hash((shape + 4 * len(headers)).to_bytes(4, "little"), SEED)
    else:
        headers, link = (), _BARE[shape]
    if key is not None:
        link = _hash(key, link)
    if value is not None:
        link = _hash(value, link)
    for name, content in headers:
        link = _hash(name.encode(), _hash(_NULL if content is None else _PRESENT, link))
        if content is not None:
            link = _hash(content, link)
    return _signed(link)


def place(offset: int, timestamp_ms: int, record: int) -> int:
    """Return the digest of a record in its place, a signed number of 64 bits.

    It chains XXH64 over offset, timestamp (ms since the epoch, -1: none) and the record's `digest`, each as eight
    bytes, little endian; Spark's ``xxhash64(offset, unix_millis(timestamp), digest)``.
    """
    link = SEED
    for number in (offset, timestamp_ms, record):
        link = _hash(number.to_bytes(8, "little", signed=True), link)
    return _signed(link)


def _signed(link: int) -> int:
    return link - 2 * _SIGN if link >= _SIGN else link
