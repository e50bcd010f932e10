"""What stands under kafka reaches the clients; what makes an acknowledgement a promise cannot be weakened there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from pydantic import SecretStr, ValidationError

from canary.settings import (
    ClusterSettings,
    admin_config,
    consumer_config,
    load,
    producer_config,
    redacted,
    redacted_url,
    secrets_of,
    transactional_config,
)

if TYPE_CHECKING:
    from pathlib import Path


def cluster(**kafka: Any) -> ClusterSettings:
    return ClusterSettings.model_validate({"kafka": kafka})


def quiet(config: dict[str, Any]) -> dict[str, Any]:
    """The client makes itself and goes nowhere: no broker is named."""
    return config | {"log_level": 0}


def test_librdkafka_knows_every_default() -> None:
    ours = cluster()
    Producer(quiet(producer_config(ours)))
    Producer(quiet(transactional_config(ours, "t")))
    Consumer(quiet(consumer_config(ours, "read_committed"))).close()
    AdminClient(quiet(admin_config(ours)))
    with pytest.raises(KafkaException):
        Producer(quiet(producer_config(ours) | {"no.such.property": "1"}))


def test_a_producer_promises_only_what_all_replicas_have() -> None:
    config = producer_config(cluster(**{"acks": "all", "linger.ms": 50}))
    assert (config["acks"], config["enable.idempotence"], config["linger.ms"]) == ("all", True, "50")
    assert config["retries"] > 10**9
    assert config["allow.auto.create.topics"] is False


def test_a_transactional_id_begins_with_the_prefix() -> None:
    prefixed = ClusterSettings.model_validate({"identifier_prefix": "team-a"})
    assert transactional_config(prefixed, "0")["transactional.id"] == "team-a-0"
    assert consumer_config(prefixed, "read_committed")["group.id"].startswith("team-a")


def test_a_message_is_given_up_before_its_transaction() -> None:
    config = transactional_config(cluster(**{"transaction.timeout.ms": "20000"}), "t")
    assert int(config["message.timeout.ms"]) == 20_000
    Producer(quiet(config))


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_reader_never_jumps_and_never_commits(isolation: Any) -> None:
    config = consumer_config(cluster(), isolation)
    assert config["isolation.level"] == isolation
    assert config["auto.offset.reset"] == "error"
    assert config["enable.auto.commit"] is False
    assert config["enable.partition.eof"] is True
    assert config["allow.auto.create.topics"] is False


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("acks", 1, "mode 'plain'"),
        ("acks", "0", "mode 'plain'"),
        ("request.required.acks", 1, "mode 'plain'"),
        ("enable.idempotence", False, "mode 'plain'"),
        ("isolation.level", "read_uncommitted", "both isolation levels"),
        ("auto.offset.reset", "earliest", "a fact to judge"),
        ("enable.auto.commit", True, "own position"),
        ("allow.auto.create.topics", True, "creates its topics itself"),
        ("transactional_id", "x", "mode 'transactional'"),
        ("group.id", "x", "identifier_prefix"),
    ],
)
def test_an_unsafe_override_is_refused_with_what_to_do(name: str, value: object, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        cluster(**{name: value})
    (error,) = caught.value.errors()
    assert said in error["ctx"]["remedy"]
    assert error["ctx"]["under"] == (name,)


def test_a_safe_value_may_be_repeated() -> None:
    ours = cluster(**{"acks": "all", "enable.idempotence": True, "auto.offset.reset": "error"})
    assert ours.client_config() == {}


def test_security_passes_through_and_secrets_are_hidden(tmp_path: Path) -> None:
    password, key = tmp_path / "password", tmp_path / "key"
    password.write_text("hunter22\n")
    key.write_text("-----BEGIN KEY-----\nhunter33\n-----END KEY-----\n")
    settings = load(
        None,
        {
            "CANARY_CLUSTERS__0__KAFKA__SECURITY_PROTOCOL": "SASL_SSL",
            "CANARY_CLUSTERS__0__KAFKA__SASL_PASSWORD_FILE": str(password),
            "CANARY_CLUSTERS__0__KAFKA__SSL_KEY_PEM_FILE": str(key),
            "CANARY_CLUSTERS__0__KAFKA__SASL_OAUTHBEARER_CLIENT_SECRET": "hunter44",
            "CANARY_CLUSTERS__0__KAFKA__SASL_OAUTHBEARER_ASSERTION_PRIVATE_KEY_FILE": "/a/path",
            "CANARY_CLUSTERS__0__WATCH__REDPANDA__PASSWORD": "hunter77",
            "CANARY_STORE__URL": "postgresql+psycopg://me:hunter55@db/canary?sslpassword=hunter66",
        },
    )
    config = settings.clusters[0].client_config()
    assert config["security.protocol"] == "SASL_SSL"
    assert config["sasl.password"] == "hunter22"
    assert config["ssl.key.pem"].splitlines()[1] == "hunter33"
    assert config["sasl.oauthbearer.assertion.private.key.file"] == "/a/path"
    for shown in (repr(settings), settings.model_dump_json(), repr(redacted(settings))):
        assert "hunter" not in shown
    assert redacted(settings)["store"]["url"].startswith("postgresql+psycopg://me:****")
    assert {"hunter22", "hunter44", "hunter55", "hunter77"} <= secrets_of(settings)


def test_a_secret_in_a_file_is_overridden_by_the_environment(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("old")
    (tmp_path / "c.yaml").write_text(f"clusters:\n- kafka: {{sasl.password: {{file: {tmp_path}/p}}}}\n")
    assert load(tmp_path / "c.yaml", {}).clusters[0].client_config() == {"sasl.password": "old"}
    environ = {"CANARY_CLUSTERS__0__KAFKA__SASL_PASSWORD": "new"}
    assert load(tmp_path / "c.yaml", environ).clusters[0].client_config() == {"sasl.password": "new"}
    (tmp_path / "c.yaml").write_text(f"store:\n  url_file: {tmp_path}/p\n")
    assert (
        "canary.db"
        in load(tmp_path / "c.yaml", {"CANARY_STORE__URL": "sqlite:///canary.db"}).store.url.get_secret_value()
    )


def test_values_become_text_as_kafka_writes_them() -> None:
    ours = cluster(**{"bootstrap.servers": ["a:1", "b:2"], "socket.keepalive.enable": True, "linger.ms": 5})
    assert ours.kafka == {"bootstrap.servers": "a:1,b:2", "socket.keepalive.enable": "true", "linger.ms": "5"}
    assert not ours.embedded


def test_a_property_set_twice_is_refused() -> None:
    with pytest.raises(ValidationError, match="set twice"):
        cluster(**{"sasl.password": "a", "sasl_password": "b"})


def test_the_lab_is_the_same_cluster_at_an_address() -> None:
    ours = ClusterSettings.model_validate({"name": "a", "kafka": {"sasl.password": "x1234"}})
    at = ours.at("127.0.0.1:9")
    assert ours.embedded
    assert not at.embedded
    assert at.client_config() == {"sasl.password": "x1234", "bootstrap.servers": "127.0.0.1:9"}
    assert isinstance(at.kafka["sasl.password"], SecretStr)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:///var/x.db", "sqlite:///var/x.db"),
        ("postgresql://u:p@ss@h/d", "postgresql://u:**********@h/d"),
        ("s3://bucket/path?key=abc&secret=def", "s3://bucket/path?key=**********&secret=**********"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert redacted_url(url) == shown


def test_replicas_in_sync_default_to_what_the_topic_can_have() -> None:
    one = ClusterSettings.model_validate({"topic": {"replication_factor": 1}})
    assert one.topic.config["min.insync.replicas"] == "1"


def test_what_reads_finds_a_broker_that_is_back_soon_and_a_producer_waits_longer() -> None:
    longest = {
        name: (config["reconnect.backoff.max.ms"], config["retry.backoff.max.ms"])
        for name, config in (
            ("admin", admin_config(cluster())),
            ("consumer", consumer_config(cluster(), "read_committed")),
            ("producer", producer_config(cluster())),
            ("transactional", transactional_config(cluster(), "t")),
        )
    }
    assert longest == {
        "admin": (500, 500),
        "consumer": (500, 500),
        "producer": (5000, 5000),
        "transactional": (5000, 5000),
    }


def test_a_longer_backoff_that_is_set_is_taken_with_the_longest_above_it() -> None:
    ours = cluster(**{"reconnect.backoff.ms": 1000, "retry.backoff.ms": 900})
    config = consumer_config(ours, "read_committed")
    assert (config["reconnect.backoff.ms"], config["reconnect.backoff.max.ms"]) == ("1000", 5000)
    Consumer(quiet(config)).close()
    AdminClient(quiet(admin_config(ours)))
    assert admin_config(cluster(**{"reconnect.backoff.max.ms": 300}))["reconnect.backoff.max.ms"] == "300"
