"""Credentials in files, which may change while the canary runs: passwords, tokens, certificates and their keys."""

import base64
import binascii
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

TOKEN_FILE: Final = "sasl.oauthbearer.token.file"  # noqa: S105  # the name of a property
"""Ours, not librdkafka's: a file with an OAuth bearer token that another program renews."""
MSK_REGION: Final = "sasl.oauthbearer.msk.region"
"""Ours, too: the region of an Amazon MSK cluster whose IAM lets us in, with AWS's credentials as they are found."""
_LOCATIONS: Final = ".location"
_LIFETIME_S: Final = 300.0
"""A token without an expiry time is read again after so long."""


class FileSecret(SecretStr):
    """A secret from a file: as it is there now; while the file cannot be read, as it was."""

    def __init__(self, path: str, text: str) -> None:
        """Begin with the text that the settings read."""
        super().__init__(text)
        self.path = path

    def get_secret_value(self) -> str:
        """Return the secret."""
        try:
            found = Path(self.path).expanduser().read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError):
            found = ""  # it is just being replaced
        self._secret_value = found or self._secret_value
        return self._secret_value


def files_of(kafka: Mapping[str, str | SecretStr]) -> list[Path]:
    """Return the files that clients with these properties take credentials from. A token's is not among them.

    (The client itself asks for a token whenever one runs out.)
    """
    secrets = [value.path for value in kafka.values() if isinstance(value, FileSecret)]
    places = [value for name, value in kafka.items() if name.endswith(_LOCATIONS) and isinstance(value, str)]
    return [Path(one).expanduser() for one in dict.fromkeys([*secrets, *places])]


def with_token(config: dict[str, Any]) -> dict[str, Any]:
    """Return properties as a client takes them: with a callback in place of TOKEN_FILE or MSK_REGION."""
    path, region = config.pop(TOKEN_FILE, None), config.pop(MSK_REGION, None)
    if region is not None:
        return config | {"oauth_cb": msk_token_of(region)}
    return config if path is None else config | {"oauth_cb": token_of(Path(path).expanduser())}


def msk_token_of(region: str) -> Callable[[str], tuple[str, float]]:
    """Return the callback that a client of Amazon MSK asks for a token: a presigned request, good for 15 minutes.

    What it raises, such as that no credentials are found, becomes an authentication error of the client.
    """

    def token(_config: str) -> tuple[str, float]:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # noqa: PLC0415  # an extra; botocore takes its time

        try:
            text, expires_ms = MSKAuthTokenProvider.generate_auth_token(region)
        except AttributeError as error:  # of None: it has looked everywhere and found nothing
            raise OSError("no credentials of AWS are found: give the pod a role, or set AWS_ACCESS_KEY_ID") from error
        return text, expires_ms / 1000

    return token


def token_of(path: Path) -> Callable[[str], tuple[str, float]]:
    """Return the callback that a client asks for a token: (token, s since the epoch at which it expires).

    What it raises becomes an authentication error of the client.
    """

    def token(_config: str) -> tuple[str, float]:
        text = path.read_text(encoding="utf-8").strip()
        return text, _expires_s(text)

    return token


def _expires_s(token: str) -> float:
    """Return when a token expires, by its claim if it is a JWT that has one."""
    parts = token.split(".")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError, binascii.Error):
        return time.time() + _LIFETIME_S
