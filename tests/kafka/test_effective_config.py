"""The client is asked what it does; one that does something else is not used."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from canary.kafka.effective_config import ACKS_OF_ONE, IDEMPOTENT, DishonestClientError, logging_properties, require
from canary.kafka.quiet import quiet_logger


def ask(promised: dict[str, str], **properties: object) -> None:
    logger = quiet_logger("asked")
    given = {name.replace("_", "."): value for name, value in properties.items()}
    config, confession = logging_properties({"test.mock.num.brokers": 1, **given}, logger)
    require(Producer(config, logger=logger), confession, promised)


def test_a_client_that_does_as_told_is_used() -> None:
    ask(IDEMPOTENT, enable_idempotence=True, acks="all")
    ask(ACKS_OF_ONE, enable_idempotence=False, acks=1)


@pytest.mark.parametrize(
    "properties", [{"enable_idempotence": False, "acks": "all"}, {"acks": 1}, {"request_required_acks": 0}]
)
def test_a_client_with_weaker_properties_is_refused_by_name(properties: dict[str, object]) -> None:
    with pytest.raises(DishonestClientError, match=r"enable\.idempotence"):
        ask(IDEMPOTENT, **properties)


def test_an_alias_that_weakens_the_promise_is_seen() -> None:
    with pytest.raises(DishonestClientError, match="acks"):
        ask(IDEMPOTENT, acks="all", request_required_acks=1)
