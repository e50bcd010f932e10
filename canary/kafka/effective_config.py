"""Reads from a client's log the properties that are in force, and refuses a client that differs from what was set.

Idempotence that another property switches off, or acknowledgements from fewer brokers than promised, would make every
conclusion wrong without a sign (jepsen-redpanda, issue #1: unsafe defaults). With ``debug=conf`` librdkafka logs its
properties.
"""

import logging
import re
from collections.abc import Mapping
from typing import Any

import structlog

from canary.kafka.quiet import with_debug

log = structlog.get_logger(__name__)

IDEMPOTENT = {"enable.idempotence": "true", "request.required.acks": "-1"}
"""In librdkafka's own names and words."""
ACKS_OF_ONE = {"enable.idempotence": "false", "request.required.acks": "1"}

_LINE = re.compile(r":\s+([a-z0-9._]+) = (.*)$")
_TURNS = 20


class DishonestClientError(RuntimeError):
    """The client's properties in force are not those that were set."""


def logging_properties(config: Mapping[str, Any], logger: logging.Logger) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the properties that make the client log its properties, and what will hold those that are in force.

    Nothing below INFO reaches the log.
    """
    effective: dict[str, str] = {}

    def keep(record: logging.LogRecord) -> bool:
        if record.levelno >= logging.INFO:
            return True
        if (found := _LINE.search(record.getMessage())) is not None:
            effective[found[1]] = found[2]
        return False

    return with_debug(config, logger, "conf", keep), effective


def require(client: Any, effective: dict[str, str], promised: Mapping[str, str]) -> None:
    """Check that the client, which logs in poll(), has the ``promised`` properties.

    Raises:
        DishonestClientError: it has others, or does not log them.
    """
    for _ in range(_TURNS):
        if promised.keys() <= effective.keys():
            break
        client.poll(0.01)
    wrong = {name: effective.get(name) for name, value in promised.items() if effective.get(name) != value}
    if wrong:
        raise DishonestClientError(
            f"the client was told {', '.join(f'{name}={promised[name]}' for name in wrong)} and has "
            f"{', '.join(f'{name}={has}' for name, has in wrong.items())}: nothing that it acknowledges is a promise"
        )
    effective.clear()
