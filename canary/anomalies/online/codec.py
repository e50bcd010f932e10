"""The tracker's state to bytes and back: JSON, by the types of the dataclasses, so that no field is forgotten.

orjson writes plain dataclasses, lists and dictionaries by itself. A dictionary whose keys are tuples is made a list of
pairs before. What there are many of (logs, streams) is written in columns, which takes half the time: each field once,
with the values of all of them. For example ``[Stall(1, 2), Stall(3, 4)]`` is ``{"since_ns": [1, 3], "last_ns": [2, 4],
…}``, and a dictionary of such is ``[[its keys], {its columns}]``. Former versions wrote them row by row; both are read.
"""

import dataclasses
import functools
import itertools
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar, cast

import orjson

T = TypeVar("T")
_Convert = Callable[[Any], Any]


def dumps(state: object) -> bytes:
    """Return ``state``, a dataclass of numbers, texts, containers and dataclasses, as JSON."""
    kind: Any = type(state)
    plain = _plain(kind)
    return orjson.dumps(state if plain is None else plain(state), _array, orjson.OPT_NON_STR_KEYS)


def loads(kind: type[T], data: bytes) -> T:
    """Return the ``kind`` that :func:`dumps` wrote. Fields that it does not have keep their defaults.

    Raises:
        ValueError: the bytes are not such a state.
    """
    content, of = orjson.loads(data), cast("Any", kind)
    try:
        return cast("T", _built_dataclass(of)(content))
    except (TypeError, KeyError, AttributeError, IndexError) as error:
        raise ValueError(f"not a state of {kind.__name__}: {error!r}") from error


def _array(value: Any) -> Any:
    if isinstance(value, tuple):  # a named one
        return tuple(value)
    raise TypeError(f"a state cannot hold a {type(value).__name__}")


@functools.cache
def _fields(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _required(hint: Any) -> Any:
    """Return X of ``X | None``, and any other type as it is."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint
    (inner,) = (part for part in typing.get_args(hint) if part is not type(None))
    return inner


def _optional(convert: _Convert | None) -> _Convert | None:
    return convert and (lambda value: None if value is None else convert(value))


def _each(convert: _Convert | None) -> Callable[[Iterable[Any]], list[Any]] | None:
    return convert and (lambda values: [convert(one) for one in values])


# to JSON


@functools.cache
def _plain(hint: Any) -> _Convert | None:
    """Return what prepares values of a type for orjson; None where that writes them as they are."""
    kind = _required(hint)
    if kind is not hint:
        return _optional(_plain(kind))
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is dict:
        return _plain_dict(*arguments)
    if origin in (list, tuple):
        of = arguments[0]
        return functools.partial(_columns, of) if _in_columns(of) else _each(_plain(of))
    if _simple(hint) or not dataclasses.is_dataclass(hint):
        return None
    names = _fields(cast("Any", hint))
    plains = {name: plain for name, of in names.items() if (plain := _plain(of)) is not None}
    return lambda value: {
        name: plains[name](getattr(value, name)) if name in plains else getattr(value, name) for name in names
    }


def _plain_dict(of_key: Any, of_item: Any) -> _Convert | None:
    if _in_columns(of_item):
        return lambda value: [[*value], _columns(of_item, value.values())]
    plain = _plain(of_item)
    if typing.get_origin(of_key) is tuple:
        return lambda value: [(key, one if plain is None else plain(one)) for key, one in value.items()]
    return plain and (lambda value: {key: plain(one) for key, one in value.items()})


@functools.cache
def _simple(hint: Any) -> bool:
    """Say whether orjson writes values of a type by itself: they hold no dictionary whose keys are tuples."""
    kind = _required(hint)
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is dict and typing.get_origin(arguments[0]) is tuple:
        return False
    if dataclasses.is_dataclass(kind):
        return all(map(_simple, _fields(cast("Any", kind)).values()))
    return kind is Any or all(map(_simple, arguments))


@functools.cache
def _in_columns(hint: Any) -> bool:
    """Say whether many values of a type are written in columns."""
    return _simple(hint) and dataclasses.is_dataclass(hint) and not any(one.kw_only for one in dataclasses.fields(hint))


def _columns(kind: Any, rows: Iterable[Any]) -> dict[str, Any]:
    rows = list(rows)
    columns = {name: list(map(attrgetter(name), rows)) for name in _fields(kind)}
    return {
        name: _columns(of, columns[name]) if _in_columns(of) else columns[name] for name, of in _fields(kind).items()
    }


# and back


@functools.cache
def _built(hint: Any) -> _Convert | None:
    """Return what makes values of a type from their JSON; None where they are as orjson reads them."""
    kind = _required(hint)
    if kind is not hint:
        return _optional(_built(kind))
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is dict:
        return _built_dict(*arguments)
    if origin is list:
        return _built_list(arguments[0])
    if origin is tuple:
        build = _built(arguments[0]) or _same
        return lambda value: tuple([build(one) for one in value])
    if isinstance(hint, type) and issubclass(hint, tuple):
        builds = [_built(of) or _same for of in typing.get_type_hints(hint).values()]
        return lambda value: hint(*(build(one) for build, one in zip(builds, value, strict=False)))  # older: fewer
    return _built_dataclass(cast("Any", hint)) if dataclasses.is_dataclass(hint) else None


def _built_list(of: Any) -> _Convert | None:
    each = _each(_built(of))
    return each and (lambda value: _rows(of, value) if isinstance(value, dict) else each(value))


def _same(value: Any) -> Any:
    return value


def _built_dict(of_key: Any, of_item: Any) -> _Convert:
    read = tuple if typing.get_origin(of_key) is tuple else of_key
    build = _built(of_item) or _same

    def built(value: Any) -> dict[Any, Any]:
        if isinstance(value, dict):
            return {read(key): build(one) for key, one in value.items()}
        if len(value) == 2 and isinstance(value[1], dict):
            keys, columns = value
            return dict(zip(map(read, keys), _rows(of_item, columns), strict=True))
        return {read(key): build(one) for key, one in value}

    return built


@functools.cache
def _built_dataclass(kind: Any) -> _Convert:
    builds = {name: _built(of) or _same for name, of in _fields(kind).items()}
    return lambda value: kind(**{name: builds[name](one) for name, one in value.items() if name in builds})


def _rows(kind: Any, columns: Mapping[str, Any]) -> list[Any]:
    size = _size(columns)
    return list(itertools.starmap(kind, zip(*_values(kind, columns, size), strict=True)))


def _values(kind: Any, columns: Mapping[str, Any], size: int) -> Iterable[Sequence[Any]]:
    """Yield, in the order of the fields, the values of all rows."""
    for field, of in zip(dataclasses.fields(kind), _fields(kind).values(), strict=True):
        column = columns.get(field.name)
        if column is None:
            yield [_default(field) for _ in range(size)]
        elif isinstance(column, dict):
            yield _rows(of, column)
        else:
            build = _built(of)
            yield column if build is None else [build(one) for one in column]


def _size(columns: Mapping[str, Any]) -> int:
    """Return how many rows there are."""
    first = next(iter(columns.values()))
    return _size(first) if isinstance(first, dict) else len(first)


def _default(field: "dataclasses.Field[Any]") -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    if field.default is dataclasses.MISSING:
        raise KeyError(field.name)
    return field.default
