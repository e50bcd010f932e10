"""Kinds of fields: durations, sizes, secrets, names. Each is plain (float, int, str) once it is read."""

import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, PlainSerializer, SecretStr, WithJsonSchema
from pydantic_core import PydanticCustomError

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE: Final = re.compile(r"(\d+)\s*(B|kB|MB|GB|KiB|MiB|GiB)?")
_BYTES: Final = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class Section(BaseModel):
    """A part of the settings: frozen, and a key it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def problem(message: str, remedy: str, *under: str | int) -> PydanticCustomError:
    """Return the error a validator raises: ``under`` is its place below the validated value, ``remedy`` what to do."""
    escaped = message.replace("{", "(").replace("}", ")")  # pydantic would take braces for placeholders
    return PydanticCustomError("canary", escaped, {"under": under, "remedy": remedy})


def models_in(annotation: Any, *, many: bool = False) -> Iterator[tuple[type[BaseModel], bool]]:
    """Yield the models in a field's annotation, and of each whether the field holds a list of them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, many
        return
    several = many or typing.get_origin(annotation) in {tuple, list}
    for inner in typing.get_args(annotation):
        yield from models_in(inner, many=several)


def seconds(value: object) -> float:
    """Return a duration like 100ms, 5s, 10m, 1h or 7d in seconds.

    Raises:
        PydanticCustomError: it is not a duration; a bare number has no unit and is refused.
    """
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise problem(f"{value!r} is no duration", "write a number with its unit, like 100ms, 5s, 10m, 1h or 7d")
    return float(match[1]) * _SECONDS[match[2]]


def duration_text(value: float) -> str:
    """Return seconds as in the settings: the largest unit in which it is a whole number."""
    for unit in ("d", "h", "m", "s"):
        if value and value % _SECONDS[unit] == 0:
            return f"{int(value / _SECONDS[unit])}{unit}"
    return f"{value * 1000:g}ms"


def size(value: object) -> int:
    """Return a size like 64MiB, 500kB or 4096 in bytes.

    Raises:
        PydanticCustomError: it is not a size.
    """
    match = _SIZE.fullmatch(str(value).strip()) if isinstance(value, int | str) and value is not True else None
    if match is None:
        raise problem(f"{value!r} is no size", "write bytes, or a number with a unit: 500kB, 64MiB, 1GiB")
    return int(match[1]) * _BYTES[match[2] or "B"]


def secret(value: object, *under: str) -> object:
    """Return a secret given in place, or read it from the file of ``{file: PATH}`` (without its last line break).

    ``under`` is its place below the validated value.

    Raises:
        PydanticCustomError: the file cannot be read.
    """
    if not isinstance(value, dict):
        return value
    if set(value) != {"file"} or not isinstance(value["file"], str):
        raise problem("this is no secret", "give it in place, or as {file: PATH}", *under)
    try:
        return Path(value["file"]).expanduser().read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise problem(
            f"the file {value['file']} cannot be read: {reason}",
            "name a file that this user may read (paths are relative to the working directory)",
            *under,
        ) from None


def property_text(value: object, name: str) -> str:
    """Return a Kafka property's value as text: true and 5 mean "true" and "5", a list its members with commas.

    Raises:
        PydanticCustomError: it is a mapping or nothing.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list) and value and all(isinstance(one, str | int) for one in value):
        return ",".join(property_text(one, name) for one in value)
    raise problem("a property is one text or number", "write it in one line, in quotes", name)


def matching(pattern: str, otherwise: str, remedy: str) -> AfterValidator:
    """Return the validator of texts that match a pattern as a whole; of any other, ``otherwise`` says what is wrong."""
    compiled = re.compile(pattern)

    def checked(value: str) -> str:
        if not compiled.fullmatch(value):
            raise problem(f"{value!r} {otherwise}", remedy)
        return value

    return AfterValidator(checked)


_DURATION_SCHEMA: Final = WithJsonSchema({"type": "string", "pattern": _DURATION.pattern, "examples": ["100ms", "10m"]})

Seconds = Annotated[
    float, BeforeValidator(seconds), PlainSerializer(duration_text, return_type=str, when_used="json"), _DURATION_SCHEMA
]
Bytes = Annotated[int, BeforeValidator(size)]
# (a lambda, for pydantic would take the second parameter for its own)
Secret = Annotated[SecretStr, BeforeValidator(lambda given: secret(given))]  # noqa: PLW0108  # as said
Name = Annotated[
    str,
    matching(
        r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}",
        "can be no label, file name or id",
        "use letters, digits, '.', '_' and '-', at most 100, the first a letter or digit",
    ),
]
TopicName = Annotated[
    str,
    matching(
        r"(?!\.\.?\Z)[A-Za-z0-9._-]{1,249}",
        "is no legal topic name",
        "use letters, digits, '.', '_' and '-', at most 249, and not '.' or '..' alone",
    ),
]
