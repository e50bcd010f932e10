"""A receiver of notifications: a pager, a chat, a program."""

from typing import Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from canary.anomalies.anomaly import Severity
from canary.settings.fields import Name, Secret, Section, problem
from canary.settings.serving import is_confidential

Kind = Literal["slack", "pagerduty", "webhook", "otlp", "heartbeat"]
PAGERDUTY: Final = "https://events.pagerduty.com/v2/enqueue"


class ReceiverSettings(Section):
    """A receiver of notifications. It is told when an incident is opened, worsens, is resolved, or is reopened."""

    name: Name = Field(description="Name of the receiver, in metrics and logs.")
    kind: Kind = Field(
        description="slack: an incoming webhook. pagerduty: Events API v2. webhook: CloudEvents 1.0 in JSON. otlp: "
        "OpenTelemetry logs over HTTP, in Protobuf; needs the extra otlp. heartbeat: called by GET each minute while "
        "all is well, and told of no incidents."
    )
    url: Secret | None = Field(
        None,
        description="Where notifications are sent; may come from a file: {file: PATH}. pagerduty: left out, "
        f"{PAGERDUTY}. otlp: with its path, like https://collector:4318/v1/logs (URL).",
    )
    key: Secret | None = Field(
        None,
        description="pagerduty: the integration's routing key. webhook, otlp: sent as Authorization: Bearer. May come "
        "from a file: {file: PATH}.",
    )
    severities: tuple[Severity, ...] = Field(
        ("critical",), min_length=1, description="It is told of incidents of these severities: critical, warning, info."
    )
    clusters: tuple[Name, ...] = Field(
        (),
        description="It is told of incidents of these clusters; heartbeat: called while these are judged. None: all "
        "(names of clusters).",
    )
    drills: bool = Field(False, description="Whether it is told of what drills of live clusters do, marked as a drill.")

    @field_validator("url")
    @classmethod
    def _address(cls, value: SecretStr | None) -> SecretStr | None:
        parts = urlsplit(value.get_secret_value()) if value is not None else None
        if parts is not None and (parts.scheme not in {"http", "https"} or not parts.hostname):
            raise problem("this is no address of a receiver", "write https://HOST/PATH")
        return value

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.kind == "pagerduty" and self.key is None:
            raise problem("PagerDuty needs the integration's routing key", "set key: {file: PATH}", "key")
        if self.kind != "pagerduty" and self.url is None:
            raise problem("it is not said where notifications are sent", "set url, or url: {file: PATH}", "url")
        if self.kind == "slack" and self.key is not None:
            raise problem("an incoming webhook of Slack has no key", "leave key out: its url is the secret", "key")
        if not self.is_told and (given := sorted(self.model_fields_set & {"key", "severities", "drills"})):
            remedy = f"leave out {', '.join(given)}: its url is the secret"
            raise problem("a heartbeat is called while all is well, and told of no incidents", remedy, given[0])
        secret = self.key is not None or self.kind in {"slack", "heartbeat"}
        if secret and not is_confidential(self.address):
            raise problem("a secret would be sent in the clear", "write https:// (http is for loopback alone)", "url")
        return self

    @property
    def is_told(self) -> bool:
        """Whether it is told of incidents; a heartbeat is not."""
        return self.kind != "heartbeat"

    @property
    def address(self) -> str:
        """Where notifications are sent, revealed: for the client alone."""
        return PAGERDUTY if self.url is None else self.url.get_secret_value()

    @property
    def secrets(self) -> set[str]:
        """Every text that must not be seen: the key, and an address with its path and query, which may be a secret."""
        given = set() if self.key is None else {self.key.get_secret_value()}
        if self.url is not None:
            parts = urlsplit(self.address)
            given |= {self.address, f"{parts.path}?{parts.query}" if parts.query else parts.path}
        return {text for text in given if len(text) >= 8}
