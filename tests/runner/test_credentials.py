"""Credentials in files: what the cluster refuses is said, and what a file holds later is taken up without a restart."""

from __future__ import annotations

import base64
import json
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from pydantic_core import PydanticCustomError

from canary.lab import NodeProperties
from canary.lab.state import CONTROLLER, free_ports
from canary.runner.supervision.credentials import CredentialFiles
from canary.settings import load, producer_config
from canary.settings.credentials import FileSecret, files_of, msk_token_of, token_of
from canary.settings.kafka import properties, revealed
from tests.support.command import canary
from tests.support.labs import Watched
from tests.support.process import Canary
from tests.support.waiting import in_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from canary.lab import Lab

USER = "canary"
_LOGIN = "org.apache.kafka.common.security"


def test_a_change_counts_once_two_looks_saw_the_same(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate.write_text("one")
    key.write_text("one")
    files = CredentialFiles([certificate, key], every_s=0)
    assert not files.changed()
    certificate.write_text("two")
    assert not files.changed()
    key.write_text("two")  # the second file came later: another look is needed
    assert [files.changed() for _ in range(3)] == [False, True, False]
    key.unlink()  # being replaced
    assert [files.changed() for _ in range(3)] == [False, False, False]
    key.write_text("two")
    assert [files.changed() for _ in range(3)] == [False, False, False]


def test_a_secret_is_what_its_file_holds_now_and_what_it_held_while_there_is_none(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("one\n")
    secret = FileSecret(str(path), "one")
    path.write_text("two\n")
    assert secret.get_secret_value() == "two"
    path.unlink()
    assert secret.get_secret_value() == "two"
    assert "two" not in repr(secret)
    assert files_of({"sasl.password": secret, "ssl.ca.location": "/ca.pem", "sasl.username": "u"}) == [
        path,
        type(path)("/ca.pem"),
    ]


def test_a_token_is_read_anew_each_time_and_expires_when_it_says(tmp_path: Path) -> None:
    path = tmp_path / "token"
    claims = base64.urlsafe_b64encode(json.dumps({"exp": 1234}).encode()).decode().rstrip("=")
    path.write_text(f"e30.{claims}.\n")
    token = token_of(path)
    assert token("") == (f"e30.{claims}.", 1234.0)
    path.write_text("opaque")
    text, expires_s = token("")
    assert text == "opaque"
    assert 0 < expires_s - time.time() <= 300
    path.unlink()
    with pytest.raises(OSError, match="No such file"):
        token("")


def test_settings_give_each_new_client_what_the_files_hold_then(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("one\n")
    file = tmp_path / "canary.yaml"
    kafka = {"bootstrap.servers": "127.0.0.1:1", "sasl.password": {"file": str(path)}, "ssl.ca.location": "/ca.pem"}
    file.write_text(json.dumps({"clusters": [{"name": "t", "kafka": kafka}]}))
    (cluster,) = load(file, {}).clusters
    assert producer_config(cluster)["sasl.password"] == "one"
    path.write_text("two\n")
    assert producer_config(cluster)["sasl.password"] == "two"
    assert files_of(cluster.kafka) == [path, type(path)("/ca.pem")]


def test_a_client_takes_the_callback_of_a_tokens_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(unsigned(60))
    config = revealed(properties({"sasl.oauthbearer.token.file": str(path), "sasl.mechanisms": "OAUTHBEARER"}))
    assert "sasl.oauthbearer.token.file" not in config
    asked: list[str] = []
    callback = config["oauth_cb"]

    def asking(text: str) -> tuple[str, float]:
        asked.append(text)
        given: tuple[str, float] = callback(text)
        return given

    config["oauth_cb"] = asking
    address = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_PLAINTEXT", "log_level": 0}
    client = Producer(config | address)
    deadline = time.monotonic() + 10
    while not asked:
        in_time(time.monotonic() < deadline, "what is waited for")
        client.poll(0.1)


def test_a_client_of_msk_is_given_a_presigned_request_that_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret")
    given = {"sasl.oauthbearer.msk.region": "eu-west-1", "sasl.mechanisms": "OAUTHBEARER"}
    config = revealed(properties(given))
    assert set(config) == {"oauth_cb", "sasl.mechanisms"}
    text, expires_s = config["oauth_cb"]("")
    asked = urlsplit(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode())
    assert asked.hostname == "kafka.eu-west-1.amazonaws.com"
    assert parse_qs(asked.query)["Action"] == ["kafka-cluster:Connect"]
    assert 600 < expires_s - time.time() <= 900
    assert "a-secret" not in text


def test_a_client_of_msk_without_aws_s_credentials_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(OSError, match="no credentials of AWS are found"):
        msk_token_of("eu-west-1")("")
    config = {
        "clusters": [{"name": "c", "kafka": {"bootstrap.servers": "b:1", "sasl.oauthbearer.msk.region": "eu-west-1"}}]
    }
    file = tmp_path / "canary.yaml"
    file.write_text(json.dumps(config))
    said = canary("config", "check", "--config", file)
    assert said.status == 2
    assert "no token: no credentials of AWS are found" in said.err


def test_msk_without_its_extra_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(PydanticCustomError, match="needs aws_msk_iam_sasl_signer") as raised:
        properties({"sasl.oauthbearer.msk.region": "eu-west-1"})
    assert raised.value.context is not None
    assert raised.value.context["remedy"] == "pip install 'kafka-durability-canary[msk]'"


@pytest.fixture
def guarded_lab(tmp_path: Path) -> Iterator[tuple[Lab, str]]:
    """One broker with a second listener that asks for SCRAM credentials or a token; its address."""
    controller, open_port, guarded = free_ports(3)
    overrides = {
        "listeners": f"PLAINTEXT://127.0.0.1:{open_port},GUARDED://127.0.0.1:{guarded}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,GUARDED:SASL_PLAINTEXT",
        "listener.name.guarded.sasl.enabled.mechanisms": "SCRAM-SHA-256,OAUTHBEARER",
        "listener.name.guarded.scram-sha-256.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;",
        "listener.name.guarded.oauthbearer.sasl.jaas.config": (
            f'{_LOGIN}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
        ),
    }
    properties = NodeProperties(single={1: overrides})
    lab = Watched(tmp_path / "lab", brokers=1, profile="quick", properties=properties, die_with_parent=True)
    lab._site.wanted.ports.update({CONTROLLER: controller, 1: open_port})
    with lab:
        yield lab, f"127.0.0.1:{guarded}"


def set_password(lab: Lab, password: str) -> None:
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    change = UserScramCredentialUpsertion(USER, info, password.encode())
    admin.alter_user_scram_credentials([change])[USER].result(20)


def cluster(bootstrap: str, **kafka: Any) -> dict[str, Any]:
    return {
        "name": "t",
        "kafka": {"bootstrap.servers": bootstrap, "security.protocol": "SASL_PLAINTEXT", **kafka},
        "topic": {"name": "guarded", "partitions": 1, "replication_factor": 1},
        "modes": {"idempotent": {}, "transactional": {"timeout": "5s"}, "group": {}},
    }


def unsigned(lifetime_s: float) -> str:
    """Return a token as Kafka's brokers take it where nothing else is set: a JWT that nobody has signed."""
    now = time.time()
    parts = ({"alg": "none"}, {"sub": USER, "iat": now, "exp": now + lifetime_s})
    return ".".join(base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in parts) + "."


@pytest.mark.kafka
@pytest.mark.quick
@pytest.mark.slow
def test_refused_is_blind_and_a_new_password_or_token_in_the_file_is_taken_up(
    guarded_lab: tuple[Lab, str], tmp_path: Path
) -> None:
    lab, address = guarded_lab
    password, token = tmp_path / "password", tmp_path / "token"
    password.write_text("one\n")
    token.write_text(unsigned(-10))  # it has run out
    set_password(lab, "one")
    scram = {"sasl.mechanisms": "SCRAM-SHA-256", "sasl.username": USER, "sasl.password_file": str(password)}
    oauth = {"sasl.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.token.file": str(token)}
    with (
        Canary(tmp_path / "a", address, "guarded", settings={"clusters": [cluster(address, **scram)]}) as canary,
        Canary(tmp_path / "b", address, "guarded", settings={"clusters": [cluster(address, **oauth)]}) as other,
    ):
        canary.until_probing()
        assert canary.violations() == []
        other.until(lambda: other.violations("blind"), 60, "a token that has run out is refused")
        token.write_text(unsigned(300))
        other.until_probing()
        set_password(lab, "two")
        lab.restart(1)  # everybody has to show who they are again
        canary.until(lambda: canary.violations("blind"), 60, "the cluster refuses us")
        before, others = acked(canary), acked(other)
        other.until(lambda: acked(other) > others + 10, 60, "a token that has not run out is enough")
        password.write_text("two\n")
        canary.until(lambda: acked(canary) > before + 10, 60, "the new password is taken up")
        canary.until_all_seen()
        assert {v["kind"] for v in canary.violations() if v["severity"] != "info"} <= {"blind", "offline-partition"}
        assert {v["kind"] for v in other.violations() if v["severity"] != "info"} <= {"blind", "offline-partition"}
        assert canary.metric("canary_probes_acked_total", mode="transactional") > 0


def acked(canary: Canary) -> float:
    return canary.metric("canary_probes_acked_total")
