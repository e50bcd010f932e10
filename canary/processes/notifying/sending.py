"""One attempt to send a message over HTTP: bounded in time and size, checked, never redirected, no secret in errors."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

import httpx

from canary.processes.notifying.messages import Message
from canary.settings.notify.receivers import ReceiverSettings
from canary.threads import system

TIMEOUT_S: Final = 5.0
"""Of each step: to connect, to send, and to wait for more of the answer."""
_ANSWER_S: Final = 10.0
"""How long an answer's body may take."""
_LARGEST: Final = 64 * 2**10
"""So much of an answer is read."""
_LONGEST_WAIT_S: Final = 3600.0
"""A receiver is asked again after an hour, whatever it wishes."""
_LATER: Final = frozenset({408, 425, 429})
"""Statuses of 400 to 499 that are about the receiver and not about the message."""


class NotTakenError(Exception):
    """A receiver has not taken a message. The text says why, without any secret.

    ``wait_s``: how long it wishes to be left alone; None: it does not say. ``alone``: it refuses this message; it may
    take others.
    """

    def __init__(self, why: str, *, wait_s: float | None = None, alone: bool = False) -> None:
        super().__init__(why)
        self.wait_s = wait_s
        self.alone = alone


def client() -> httpx.Client:
    """Return a client that checks certificates and follows no redirect."""
    kept = httpx.Limits(max_keepalive_connections=0)
    return httpx.Client(timeout=TIMEOUT_S, follow_redirects=False, limits=kept)


def send(http: httpx.Client, receiver: ReceiverSettings, message: Message | None = None) -> None:
    """Send a message; without one, call the address by GET.

    Raises:
        NotTakenError: it has not certainly been taken.
    """
    method, body = ("GET", None) if message is None else ("POST", message.body)
    headers = {"User-Agent": "kafka-durability-canary"}
    if message is not None:
        headers["Content-Type"] = message.content_type
    if receiver.key is not None and receiver.kind != "pagerduty":
        headers["Authorization"] = f"Bearer {receiver.key.get_secret_value()}"
    try:
        with http.stream(method, receiver.address, content=body, headers=headers) as answer:
            if not answer.is_success:
                alone = 400 <= answer.status_code < 500 and answer.status_code not in _LATER
                wait_s = _wait_s(answer.headers)
                raise NotTakenError(f"it answers {answer.status_code}", wait_s=wait_s, alone=alone)
            if receiver.kind == "otlp":
                _taken(_body(answer))
    except httpx.TimeoutException:
        raise NotTakenError(f"no answer within {TIMEOUT_S:g} s") from None
    except httpx.ConnectError as error:
        raise NotTakenError(f"no connection: {_without(receiver.secrets, str(error))}") from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:  # their words may hold headers and addresses
        raise NotTakenError(f"the request fails ({type(error).__name__})") from None


def _body(answer: httpx.Response) -> bytes:
    """Return the first _LARGEST bytes of an answer."""
    body, until = b"", system.monotonic() + _ANSWER_S
    for part in answer.iter_bytes():
        body += part
        if len(body) > _LARGEST or system.monotonic() > until:
            raise NotTakenError("its answer is too long")
    return body


def _taken(body: bytes) -> None:
    """Look into the answer of a collector: it may be a success of nothing."""
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # noqa: PLC0415  # of an extra
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse  # noqa: PLC0415

    try:
        rejected = ExportLogsServiceResponse.FromString(body).partial_success.rejected_log_records
    except DecodeError:
        raise NotTakenError("its answer is not that of a collector") from None
    if rejected:
        raise NotTakenError("it rejects the log record", alone=True)


def _wait_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that Retry-After says, as a number or as a date; None: it says nothing."""
    text = headers.get("retry-after", "").strip()
    try:
        wait_s = float(text) if text.isdecimal() else _seconds_until(text)
    except (TypeError, ValueError, OverflowError):
        return None
    return min(max(wait_s, 0.0), _LONGEST_WAIT_S)


def _seconds_until(date: str) -> float:
    when = parsedate_to_datetime(date)
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - datetime.now(UTC).timestamp()


def _without(secrets: set[str], text: str) -> str:
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "**********")
    return text
