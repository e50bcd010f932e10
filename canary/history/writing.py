"""Histories to JSON Lines, and to EDN as Jepsen writes it: one map a line, names as keywords, texts as strings."""

import json
from collections.abc import Iterable
from dataclasses import fields
from typing import Any, BinaryIO

import orjson

from canary.history.operation import Operation

_OPTIONAL = frozenset({"rebalance_log", "seek_to_beginning", "error"})
_NAMES = frozenset({"send", "poll"})


def to_json(operation: Operation) -> dict[str, Any]:
    """Return the operation as JSON values: CONTRACTS' fields, and those of the optional ones that are set."""
    named = ((field.name, getattr(operation, field.name)) for field in fields(operation))
    return {name: value for name, value in named if value is not None or name not in _OPTIONAL}


def write_jsonl(operations: Iterable[Operation], file: BinaryIO) -> int:
    """Write ``operations``, one a line; return how many there were."""
    return _write_lines((orjson.dumps(to_json(one), option=orjson.OPT_NON_STR_KEYS) for one in operations), file)


def write_edn(operations: Iterable[Operation], file: BinaryIO) -> int:
    """Write ``operations``, one a line; return how many there were."""
    return _write_lines((to_edn(one).encode() for one in operations), file)


def to_edn(operation: Operation) -> str:
    """Return the operation as an EDN map."""
    values = to_json(operation)
    for name in ("type", "f"):
        values[name] = _Keyword(values[name])
    if isinstance(values["process"], str):
        values["process"] = _Keyword(values["process"])
    if operation.f in {"send", "poll", "txn"}:
        values["value"] = [[_Keyword(one[0]), *one[1:]] if one[0] in _NAMES else one for one in operation.value]
    return "{" + ", ".join(f":{name.replace('_', '-')} {_text(value)}" for name, value in values.items()) + "}"


class _Keyword(str):
    __slots__ = ()


def _text(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "nil", True: "true", False: "false"}[value]
    if isinstance(value, _Keyword):
        return f":{value}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(key)} {_text(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + " ".join(_text(one) for one in value) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def _write_lines(lines: Iterable[bytes], file: BinaryIO) -> int:
    """Write each line with its end; return how many there were."""
    count = 0
    for count, line in enumerate(lines, 1):  # noqa: B007  # the last one is the result
        file.write(line + b"\n")
    return count
