"""What an application says about its receipts: in the constructor, or in the environment."""

import os
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

PREFIX: Final = "CANARY_RECEIPTS_"
"""Each option is an environment variable, too: CANARY_RECEIPTS_DIRECTORY and so on; the constructor's word counts."""


@dataclass(frozen=True, slots=True)
class Options:
    """Where receipts go, and how many.

    Attributes:
        directory: a directory, or a URL that fsspec knows (s3://… and the like); None: no receipts are written.
        per_second: the most receipts a second, so that they cost the same however much is sent; None: each record
            gets one.
        every_s: a file is published so often (s). Whoever is killed loses the receipts since then.
        rows: a file is published once it has so many.
        name: of the producer in files' names; None: client.id, else the host's name.
        topic_ids: ask the cluster for the ids of topics, by which one that was deleted and made again is told apart.
    """

    directory: str | None = None
    per_second: int | None = 1000
    every_s: float = 60.0
    rows: int = 1_000_000
    name: str | None = None
    topic_ids: bool = True

    @classmethod
    def of(cls, given: Mapping[str, Any] | None, environment: Mapping[str, str] | None = None) -> Self:
        """Return the options given, and for the rest those of the environment.

        Raises:
            ValueError: one is unknown, or has no such value; it is named.
        """
        environment = os.environ if environment is None else environment
        found: dict[str, Any] = {}
        for name, read in _READ.items():
            if (text := environment.get(PREFIX + name.upper())) is not None:
                found[name] = _read(read, text, PREFIX + name.upper())
        for name, value in (given or {}).items():
            if name not in _READ:
                raise ValueError(f"receipts[{name!r}] is unknown; there are {', '.join(_READ)}")
            found[name] = _read(_READ[name], value, f"receipts[{name!r}]")
        return cls(**found)

    def producer_name(self, config: Mapping[str, Any]) -> str:
        """Return what the producer with a configuration is called."""
        return self.name or str(config.get("client.id") or "") or socket.gethostname() or "producer"


def file_part(name: str) -> str:
    """Return a name as a part of a file's name: without a separator, or "--".

    >>> file_part("orders/eu--1")
    'orders%2Feu-%2D1'
    >>> file_part("_orders_eu")  # readers leave files alone that begin with it, or with a dot
    '%5Forders_eu'
    """
    safe = re.sub(r"^[._]|[^A-Za-z0-9._-]", lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), name)
    return safe.replace("--", "-%2D")


def _text(value: Any) -> str | None:
    return os.fspath(value) or None if value is not None else None


def _count(value: Any) -> int:
    number = int(value)
    if number < 1:
        raise ValueError
    return number


def _limit(value: Any) -> int | None:
    return None if value in {None, "", "none", "all"} else _count(value)


def _seconds(value: Any) -> float:
    number = float(value)
    if not 0.1 <= number <= 86_400:
        raise ValueError
    return number


def _switch(value: Any) -> bool:
    return {"true": True, "1": True, "false": False, "0": False}[str(value).lower()]


_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "directory": _text,
    "per_second": _limit,
    "every_s": _seconds,
    "rows": _count,
    "name": _text,
    "topic_ids": _switch,
}


def _read(read: Callable[[Any], Any], value: Any, place: str) -> Any:
    try:
        return read(value)
    except (ValueError, TypeError, KeyError):
        raise ValueError(f"{place} cannot be {value!r}; see docs/receipts.md") from None
