from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

from canary.watching.audit.certificates import MOST, expiries, expiry_s, file_expiry_s
from tests.support.certificates import self_signed

if TYPE_CHECKING:
    from pathlib import Path

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def certificate(days: int) -> bytes:
    return self_signed(NOW + dt.timedelta(days=days))[0]


def in_days(days: int) -> float:
    return (NOW + dt.timedelta(days=days)).timestamp()


def test_of_a_chain_the_first_to_expire_counts() -> None:
    assert expiry_s(certificate(90) + b"\nsome words\n" + certificate(30)) == in_days(30)


def test_what_holds_no_certificate_says_nothing(tmp_path: Path) -> None:
    assert expiry_s(b"") is None
    assert expiry_s(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----") is None
    assert file_expiry_s(tmp_path / "none.pem") is None


def test_a_bundle_of_a_system_says_nothing() -> None:
    assert expiry_s(certificate(1) * (MOST + 1)) is None


@pytest.mark.parametrize("inline", [False, True])
def test_the_client_s_and_the_authority_s_are_found_in_the_properties(tmp_path: Path, *, inline: bool) -> None:
    properties: dict[str, object] = {"bootstrap.servers": "a:1", "ssl.key.password": "x"}
    for role, days in (("certificate", 10), ("ca", 20)):
        if inline:
            properties[f"ssl.{role}.pem"] = certificate(days).decode()
        else:
            path = tmp_path / f"{role}.pem"
            path.write_bytes(certificate(days))
            properties[f"ssl.{role}.location"] = str(path)
    assert expiries(properties) == {"client": in_days(10), "authority": in_days(20)}
