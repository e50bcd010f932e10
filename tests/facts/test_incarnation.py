"""A topic's id has one form, whoever tells it: half of all ids differ between Kafka's and librdkafka's alphabets."""

from __future__ import annotations

import base64
import uuid
from types import SimpleNamespace

from confluent_kafka import Uuid
from hypothesis import given
from hypothesis import strategies as st

from canary.facts.incarnation import one_form
from canary.kafka.responses import topic_id_of
from canary.wire import replicas


def signed(word: bytes) -> int:
    return int.from_bytes(word, "big", signed=True)


@given(content=st.binary(min_size=16, max_size=16).filter(any))
def test_both_clients_and_kafkas_own_files_tell_a_topics_id_in_one_form(content: bytes) -> None:
    of_librdkafka = topic_id_of(SimpleNamespace(topic_id=Uuid(signed(content[:8]), signed(content[8:]))))
    assert replicas._id(uuid.UUID(bytes=content)) == of_librdkafka
    assert one_form(base64.urlsafe_b64encode(content).decode().rstrip("=")) == of_librdkafka
    assert of_librdkafka is not None
    assert one_form(of_librdkafka) == of_librdkafka
