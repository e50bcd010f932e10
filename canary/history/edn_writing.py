"""Histories to EDN, as Jepsen writes them: one map a line, names as keywords, texts as strings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, BinaryIO

from canary.history.writing import to_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from canary.history.operation import Operation

_NAMES = frozenset({"send", "poll"})


def write_edn(operations: Iterable[Operation], file: BinaryIO) -> int:
    """Write ``operations``, one a line; return how many there were."""
    count = 0
    for operation in operations:
        file.write(to_edn(operation).encode() + b"\n")
        count += 1
    return count


def to_edn(operation: Operation) -> str:
    """Return the operation as an EDN map."""
    fields = to_json(operation)
    for name in ("type", "f"):
        fields[name] = _Keyword(fields[name])
    if isinstance(fields["process"], str):
        fields["process"] = _Keyword(fields["process"])
    if operation.f in {"send", "poll", "txn"}:
        fields["value"] = [[_Keyword(one[0]), *one[1:]] if one[0] in _NAMES else one for one in operation.value]
    return "{" + ", ".join(f":{name.replace('_', '-')} {_text(value)}" for name, value in fields.items()) + "}"


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
