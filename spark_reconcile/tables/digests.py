"""Digests of records, as Spark computes them from the columns of its Kafka source, without Python."""

from typing import Final

_PARTS: Final = "int(key IS NULL) + 2 * int(value IS NULL) + 4 * coalesce(array_size(headers), 0), key, value"
DIGEST: Final = f"xxhash64({_PARTS}, transform(headers, one -> struct(one.value IS NULL, one.key, one.value)))"
"""A record's digest (`canary.facts.digests.digest`), from the columns key, value and headers."""
PLACE: Final = f"xxhash64(offset, unix_millis(timestamp), {DIGEST})"
"""The digest of a record in its place (`canary.facts.digests.place`)."""

FAST_DIGEST: Final = (
    f"xxhash64({_PARTS}, arrays_zip(array_repeat(false, array_size(headers)), headers.key, headers.value))"
)
"""The same where no header's value is null. Spark compiles it, and not a lambda: it takes half the time."""
FAST_PLACE: Final = f"xxhash64(offset, unix_millis(timestamp), {FAST_DIGEST})"
PERHAPS_NULL: Final = "headers IS NOT NULL AND coalesce(array_contains(headers.value, X'5F6E6F206E756C6C5F'), true)"
"""False only if no header's value is null: array_contains is null where it finds nothing among nulls."""
