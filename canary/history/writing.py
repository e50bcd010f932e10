"""Histories to JSON Lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable

    from canary.history.operation import Operation


def to_json(operation: Operation) -> dict[str, Any]:
    """Return the operation as JSON values: CONTRACTS' fields, and those of the optional ones that are set."""
    fields: dict[str, Any] = {
        "index": operation.index,
        "time": operation.time,
        "process": operation.process,
        "type": operation.type,
        "f": operation.f,
        "value": operation.value,
    }
    for name in ("rebalance_log", "seek_to_beginning", "error"):
        value = getattr(operation, name)
        if value is not None:
            fields[name] = value
    return fields


def write_jsonl(operations: Iterable[Operation], file: BinaryIO) -> int:
    """Write ``operations``, one a line; return how many there were."""
    count = 0
    for operation in operations:
        file.write(orjson.dumps(to_json(operation), option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS))
        count += 1
    return count
