"""Digests of records, as Spark computes them from the columns of its Kafka source, without Python."""

from typing import Final

DIGEST: Final = (
    "xxhash64(int(key IS NULL) + 2 * int(value IS NULL) + 4 * coalesce(array_size(headers), 0), key, value, "
    "transform(headers, one -> struct(one.value IS NULL, one.key, one.value)))"
)
"""A record's digest (`canary.facts.digests.digest`), from the columns key, value and headers."""
PLACE: Final = f"xxhash64(offset, unix_millis(timestamp), {DIGEST})"
"""The digest of a record in its place (`canary.facts.digests.place`)."""
