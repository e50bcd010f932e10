"""How a client gathers, compresses and sends, as a mode's settings say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from canary.kafka.effective_config import ACKS_OF_ONE, IDEMPOTENT, logging_properties, require
from canary.kafka.quiet import calm, quiet_logger
from canary.probing.base import SAFE
from canary.probing.idempotent import IdempotentProducer
from canary.probing.plain import UNSAFE
from canary.probing.sending.pipeline import piped
from canary.probing.session import client_config
from canary.settings import ClusterSettings, producer_config
from canary.workloads.descriptor import Settings
from tests.support.recording import Recording
from tests.support.wiring import wired

if TYPE_CHECKING:
    from collections.abc import Mapping

ALL = Settings(linger=0.02, batch=200_000, in_flight=4, compression="zstd")


def test_what_is_left_out_stays_as_the_cluster_has_it() -> None:
    config = {"linger.ms": 7, "compression.codec": "gzip", "max.in.flight": 2, "batch.size": 5}
    assert piped(config, Settings()) == config


def test_what_is_set_goes_over_each_of_its_names() -> None:
    config = {"queue.buffering.max.ms": 7, "compression.codec": "gzip", "max.in.flight": 2, "client.id": "c"}
    assert piped(config, ALL) == {
        "client.id": "c",
        "linger.ms": 20.0,
        "batch.size": 200_000,
        "max.in.flight.requests.per.connection": 4,
        "compression.type": "zstd",
    }
    assert piped(config, Settings(linger=0.0))["linger.ms"] == 0


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize(("forced", "promised"), [(SAFE, IDEMPOTENT), (UNSAFE, ACKS_OF_ONE)])
def test_the_client_takes_every_codec_and_keeps_its_promise(
    codec: str, forced: Mapping[str, object], promised: Mapping[str, str]
) -> None:
    given = piped(
        producer_config(ClusterSettings.model_validate({})), Settings(linger=0.02, in_flight=5, compression=codec)
    )
    logger = quiet_logger("test")
    config, effective = logging_properties(calm(given, "test", forced=forced), logger)
    client = Producer(config, logger=logger)
    require(client, effective, promised)


def test_a_transaction_is_compressed_and_does_not_linger() -> None:
    config = client_config(wired(Recording(), "transactional", compression="lz4", timeout=5.0), "id")
    assert (config["compression.type"], config["linger.ms"]) == ("lz4", 0)


def test_what_lingers_is_no_silence() -> None:
    """A probe may be as old as it lingers before it is even sent."""
    patient = IdempotentProducer({}, wired(Recording(), linger=3.0), patience_s=0.4)
    assert patient._patience_ns == 3_400_000_000
