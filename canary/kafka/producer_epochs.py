"""Notices that a producer takes a new producer epoch: records in flight then may be appended twice.

librdkafka does so by itself when a partition answers OUT_OF_ORDER_SEQUENCE_NUMBER, or when a message times out that may
have been written, and for all partitions at once. Records that brokers had appended and not yet acknowledged are sent
again under the new epoch, where brokers cannot recognize the copy (its issue 4953, open with 2.16). Before it sends, it
logs that (``debug=eos``); statistics come too late.
"""

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any

from canary.kafka.quiet import with_debug

_BEGINS = re.compile(r"Beginning partition drain .*(?:epoch bump|reset) for .*?: (.*)$", re.DOTALL)


def watching_epochs(
    config: Mapping[str, Any], logger: logging.Logger, on_bump: Callable[[str], None]
) -> dict[str, Any]:
    """Return the properties that make the client log its epochs; call it before logging_properties().

    ``on_bump`` is called with the client's reason for a new epoch, in the thread that polls.
    """

    def look(record: logging.LogRecord) -> bool:
        if record.levelno < logging.INFO and (begins := _BEGINS.search(record.getMessage())) is not None:
            on_bump(begins[1])
        return True

    return with_debug(config, logger, "eos", look)
