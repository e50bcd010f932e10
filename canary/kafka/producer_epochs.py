"""Hears from a producer that it takes a new producer epoch: what is in flight then may be appended twice.

librdkafka does so by itself when a partition is answered OUT_OF_ORDER_SEQUENCE_NUMBER, or when a message times out that
may have been written, and for all partitions at once; what the brokers had appended already and not acknowledged yet is
sent again under the new epoch, where they cannot know it for a copy (its issue 4953, open with 2.16). It tells of that
in its log (``debug=eos``) before it sends, and in nothing else that comes in time: statistics come by the clock.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from canary.client.quiet import overheard

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_BEGINS = re.compile(r"Beginning partition drain .*(?:epoch bump|reset) for .*?: (.*)$", re.DOTALL)


class EpochWatch(logging.Filter):
    """Calls ``on_bump`` with the client's reason, in the thread that polls. Lets every line through."""

    def __init__(self, on_bump: Callable[[str], None]) -> None:
        super().__init__()
        self._on_bump = on_bump

    def filter(self, record: logging.LogRecord) -> bool:
        """Look at a line."""
        if record.levelno < logging.INFO and (begins := _BEGINS.search(record.getMessage())) is not None:
            self._on_bump(begins[1])
        return True


def watching_epochs(
    config: Mapping[str, Any], logger: logging.Logger, on_bump: Callable[[str], None]
) -> dict[str, Any]:
    """Return the properties that make the client tell; ``logger`` is to be the client's, and not yet confessing."""
    return overheard(config, logger, "eos", EpochWatch(on_bump))
