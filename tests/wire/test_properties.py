"""Properties that cannot be used are named, whatever Python and kafka-python say of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kafka.errors import KafkaConnectionError

from canary.wire.client import asked, opened
from canary.wire.errors import WireError
from canary.wire.properties import translated

if TYPE_CHECKING:
    from pathlib import Path

TLS = {"bootstrap.servers": "b:9093", "security.protocol": "ssl"}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"ssl.ca.location": "/none/ca.pem"}, "ssl.ca.location /none/ca.pem: "),
        ({"ssl.ca.pem": "junk"}, "ssl.ca.pem: "),
        ({"ssl.crl.location": "/none/crl.pem"}, "ssl.crl.location /none/crl.pem: "),
        ({"ssl.certificate.location": "/none/c.pem"}, "ssl.certificate.location /none/c.pem: "),
        ({"bootstrap.servers": "b1:9093,b2:port"}, "bootstrap.servers: b2:port is no HOST:PORT"),
        ({"bootstrap.servers": " , "}, "bootstrap.servers names no broker"),
        ({"security.protocol": "sasl_ssl"}, "sasl.mechanisms GSSAPI: not supported"),
    ],
)
def test_what_cannot_be_used_is_named(more: dict[str, str], says: str) -> None:
    with pytest.raises(WireError) as found, opened(TLS | more, 0.1):
        pass
    assert str(found.value).startswith(says)


def test_a_file_that_is_no_certificate_is_named_and_its_password_is_not(tmp_path: Path) -> None:
    file = tmp_path / "c.pem"
    file.write_text("junk")
    secret = {"ssl.certificate.location": str(file), "ssl.key.location": str(file), "ssl.key.password": "open sesame"}
    with pytest.raises(WireError, match=r"ssl\.key\.location") as found:
        translated(TLS | secret, 1.0)
    assert "sesame" not in str(found.value)


def test_addresses_are_taken_as_librdkafka_takes_them() -> None:
    servers = "PLAINTEXT://b1:9092, b2:9093,[::1]:9094,b3,"
    found = translated({"bootstrap.servers": servers}, 1.0)["bootstrap_servers"]
    assert found == ["b1:9092", "b2:9093", "[::1]:9094", "b3"]


def test_a_token_that_is_not_there_is_an_error_of_the_library() -> None:
    def missing(_: str) -> tuple[str, float]:
        raise FileNotFoundError("token")

    config = {"bootstrap.servers": "b", "sasl.mechanism": "oauthbearer", "oauth_cb": missing}
    provider = translated(config | {"security.protocol": "sasl_plaintext"}, 1.0)["sasl_oauth_token_provider"]
    with pytest.raises(KafkaConnectionError, match="no OAUTHBEARER token: FileNotFoundError"):
        provider.token()


def test_what_the_library_lets_through_is_no_answer() -> None:
    class Manager:
        def run(self, _: Any) -> None:
            raise UnicodeError("label empty or too long")

    class Admin:
        _manager = Manager()

    with pytest.raises(WireError, match="UnicodeError: label empty"):
        asked(Admin(), object(), 1)
