"""One parsed operation: its fields checked and completed, or the reason why that is impossible."""

import reprlib
from typing import Any

from canary.history.operation import TYPES

_DATA = frozenset({"send", "poll", "txn"})
_HOLDING = frozenset({"assign", "subscribe"})
_INT64 = 1 << 63
_SHORT = reprlib.Repr()
_KINDS = {type(None): "null", dict: "an object", list: "a list", str: "text", bool: "a boolean"}


class OperationError(ValueError):
    """Why an operation cannot be read."""


def regular(operation: object) -> dict[str, Any]:
    """Return ``operation`` with every field that the columns need, or raise.

    Raises:
        OperationError: saying what is wrong, for people.
    """
    if not isinstance(operation, dict):
        raise OperationError(f"an operation is an object, not {_kind(operation)}")
    for name in ("index", "time", "process", "type", "f"):
        if name not in operation:
            raise OperationError(f"the operation has no {name}")
    process = operation["process"]
    if process is None or isinstance(process, str):
        return {**operation, "value": operation.get("value")}
    for name in ("process", "index", "time"):
        _integer(operation[name], name)
    if operation["type"] not in TYPES:
        raise OperationError(f"type is {_show(operation['type'])}, not one of {', '.join(TYPES)}")
    function = operation["f"]
    if not isinstance(function, str):
        raise OperationError(f"f is {_kind(function)}, not a name")
    value = operation.get("value")
    _value(value, function)
    _rebalances(operation.get("rebalance_log"))
    return {**operation, "value": value}


def _value(value: object, function: str) -> None:
    if function not in _DATA | _HOLDING:
        return
    if value is None:
        raise OperationError(f"the {function} has no value")
    if function in _DATA:
        _micro_operations(value, function)
    elif isinstance(value, list):
        for key in value:
            _key(key)
    else:
        raise OperationError(f"the value of {function} is a list of keys, not {_kind(value)}")


def _micro_operations(value: object, function: str) -> None:
    if not isinstance(value, list):
        raise OperationError(f"the value of {function} is a list of micro-operations, not {_kind(value)}")
    for micro in value:
        if not isinstance(micro, list) or not micro:
            raise OperationError(f'a micro-operation is ["send", key, value] or ["poll"], not {_show(micro)}')
        match micro:
            case ["send", key, sent]:
                _key(key)
                _sent(sent)
            case ["poll"]:
                pass
            case ["poll", dict() as polled]:
                for key, pairs in polled.items():
                    _key(key)
                    _pairs(pairs)
            case ["send", *_]:
                raise OperationError(f"a send is [send, key, value] or [send, key, [offset, value]]: {_show(micro)}")
            case ["poll", *_]:
                raise OperationError(f"a poll is [poll] or [poll, {{key: [[offset, value], ...]}}]: {_show(micro)}")
            case _:
                raise OperationError(f"unknown micro-operation {_show(micro[0])}")


def _sent(sent: object) -> None:
    if isinstance(sent, list):
        _message(sent, "a completed send holds")
    else:
        _scalar(sent)


def _pairs(pairs: object) -> None:
    if not isinstance(pairs, list):
        raise OperationError(f"a poll returns a list of [offset, value] for each key, not {_show(pairs)}")
    for pair in pairs:
        _message(pair, "a polled message is")


def _message(pair: object, what: str) -> None:
    if not isinstance(pair, list) or len(pair) != 2:
        raise OperationError(f"{what} [offset, value], not {_show(pair)}")
    _offset(pair[0])
    _scalar(pair[1])


def _rebalances(log: object) -> None:
    if log is None:
        return
    if not isinstance(log, list):
        raise OperationError(f"rebalance_log is a list, not {_kind(log)}")
    for rebalance in log:
        keys = rebalance.get("keys", []) if isinstance(rebalance, dict) else None
        if not isinstance(keys, list):
            raise OperationError(f'a rebalance is {{"keys": [...]}}, not {_show(rebalance)}')
        for key in keys:
            _key(key)


def _integer(value: object, name: str) -> None:
    if type(value) is not int:
        raise OperationError(f"{name} is {_show(value)}, not an integer")
    if not -_INT64 <= value < _INT64:
        raise OperationError(f"{name} is out of range")


def _offset(offset: object) -> None:
    if offset is None:
        return
    if type(offset) is not int:
        raise OperationError(f"an offset is an integer or null, not {_show(offset)}")
    if not 0 <= offset < _INT64:
        raise OperationError(f"offset {offset} is out of range")


def _key(key: object) -> None:
    if type(key) not in (str, int):
        raise OperationError(f"a key is text or an integer, not {_show(key)}")


def _scalar(value: object) -> None:
    if type(value) not in (str, int, float, bool):
        raise OperationError(f"a value is text, a number or a boolean, not {_show(value)}")


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "a number")


def _show(value: object) -> str:
    text = _SHORT.repr(value)  # however deep or long the value
    return text if len(text) <= 60 else text[:57] + "..."
