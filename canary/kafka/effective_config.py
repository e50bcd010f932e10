"""Asks a client what it really does: our settings may say one thing and the client another.

Idempotence that is switched off by another property, or acknowledgements from fewer brokers than promised, would make
every conclusion wrong without a sign (jepsen-redpanda, issue #1: unsafe defaults). With ``debug=conf`` librdkafka tells
its properties as they are in force; they are read here, and a client that differs is not used.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

import structlog

from canary.client.quiet import overheard

if TYPE_CHECKING:
    from collections.abc import Mapping

log = structlog.get_logger(__name__)

IDEMPOTENT = {"enable.idempotence": "true", "request.required.acks": "-1"}
"""In librdkafka's own names and words."""
ACKS_OF_ONE = {"enable.idempotence": "false", "request.required.acks": "1"}

_LINE = re.compile(r":\s+([a-z0-9._]+) = (.*)$")
_TURNS = 20


class DishonestClientError(RuntimeError):
    """The client does something else than it was told."""


class Confession(logging.Filter):
    """Takes the properties out of a client's log lines; nothing below INFO goes further."""

    def __init__(self) -> None:
        super().__init__()
        self.properties: dict[str, str] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep what the line tells; say whether it is for others, too."""
        if record.levelno >= logging.INFO:
            return True
        told = _LINE.search(record.getMessage())
        if told is not None:
            self.properties[told[1]] = told[2]
        return False


def confessing(config: Mapping[str, Any], logger: logging.Logger) -> tuple[dict[str, Any], Confession]:
    """Return the properties that make the client tell, and what will hold its answer."""
    confession = Confession()
    return overheard(config, logger, "conf", confession), confession


def require(client: Any, confession: Confession, promised: Mapping[str, str]) -> None:
    """Ask the client, which must serve its log in poll(), whether it does what is ``promised``.

    Raises:
        DishonestClientError: it does not, or does not say.
    """
    for _ in range(_TURNS):
        if promised.keys() <= confession.properties.keys():
            break
        client.poll(0.01)
    wrong = {name: confession.properties.get(name) for name in promised}
    wrong = {name: said for name, said in wrong.items() if said != promised[name]}
    if wrong:
        raise DishonestClientError(
            f"the client was told {', '.join(f'{name}={promised[name]}' for name in wrong)} and has "
            f"{', '.join(f'{name}={said}' for name, said in wrong.items())}: nothing that it acknowledges is a promise"
        )
    confession.properties.clear()
