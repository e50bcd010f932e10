"""The client's own word that it takes a new producer epoch, as librdkafka 2.16 says it."""

from __future__ import annotations

import pytest

from canary.kafka.effective_config import logging_properties
from canary.kafka.producer_epochs import watching_epochs
from canary.kafka.quiet import quiet_logger

BUMP = (
    "[producer-5] [thrd:127.0.0.1:9092/1]: Beginning partition drain in state Assigned for PID{Id:1001,Epoch:0} "
    "epoch bump for 3 partition(s) with in-flight requests: skipped sequence numbers"
)
RESET = (
    "[producer-5] [thrd:main]: Beginning partition drain for PID{Id:7,Epoch:2} reset for 0 partition(s) with in-flight "
    "requests: unknown producer id"
)
RETRY = "[producer-5] [thrd:127.0.0.1:9092/1]: t [0] beginning partition drain: drain before retrying"


@pytest.mark.parametrize(
    ("line", "heard"), [(BUMP, ["skipped sequence numbers"]), (RESET, ["unknown producer id"]), (RETRY, [])]
)
def test_a_drain_before_a_new_epoch_is_heard_and_one_before_a_retry_is_not(line: str, heard: list[str]) -> None:
    bumps: list[str] = []
    logger = quiet_logger("client")
    config = watching_epochs({"debug": "broker"}, logger, bumps.append)
    config, _ = logging_properties(config, logger)
    assert config["debug"] == "broker,eos,conf"
    logger.debug("%s %s", "DRAIN", line)
    assert bumps == heard


def test_what_the_client_says_at_other_levels_is_no_bump() -> None:
    bumps: list[str] = []
    logger = quiet_logger("client")
    watching_epochs({}, logger, bumps.append)
    logger.warning("%s %s", "SAID", BUMP)
    assert bumps == []
