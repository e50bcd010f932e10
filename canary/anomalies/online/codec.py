"""The tracker's state to bytes and back: JSON, by the types of the dataclasses, so that no field is forgotten."""

import dataclasses
import functools
import types
import typing
from typing import Any, TypeVar, cast

import orjson

T = TypeVar("T")


def dumps(state: object) -> bytes:
    """Return ``state``, a dataclass of numbers, texts, containers and dataclasses, as JSON."""
    return orjson.dumps(_plain(state))


def loads(kind: type[T], data: bytes) -> T:
    """Return the ``kind`` that :func:`dumps` wrote. Fields that it does not have keep their defaults.

    Raises:
        ValueError: the bytes are not such a state.
    """
    try:
        return cast("T", _build(kind, orjson.loads(data)))
    except (TypeError, KeyError, AttributeError, IndexError) as error:
        raise ValueError(f"not a state of {kind.__name__}: {error!r}") from error


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: _plain(getattr(value, name)) for name in _fields(type(value))}
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: _plain(item) for key, item in value.items()}
        return [[_plain(k), _plain(v)] for k, v in value.items()]
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    raise TypeError(f"a state cannot hold a {type(value).__name__}")


@functools.cache
def _fields(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _build(hint: Any, value: Any) -> Any:  # noqa: PLR0911  # one for each shape
    if value is None or hint is Any:
        return value
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        (inner,) = (part for part in typing.get_args(hint) if part is not type(None))
        return _build(inner, value)
    if origin is dict:
        key, item = typing.get_args(hint)
        pairs = value.items() if isinstance(value, dict) else value
        read = tuple if typing.get_origin(key) is tuple else key
        return {read(k): _build(item, v) for k, v in pairs}
    if origin is list:
        (item,) = typing.get_args(hint)
        return list(value) if item in (int, str) else [_build(item, v) for v in value]
    if origin is tuple:
        (item, _) = typing.get_args(hint)
        return tuple(_build(item, v) for v in value)
    if isinstance(hint, type) and issubclass(hint, tuple):
        kinds = typing.get_type_hints(hint).values()
        return hint(*(_build(kind, v) for kind, v in zip(kinds, value, strict=True)))
    if dataclasses.is_dataclass(hint):
        fields = _fields(cast("type", hint))
        return cast("Any", hint)(**{name: _build(fields[name], v) for name, v in value.items() if name in fields})
    return value
