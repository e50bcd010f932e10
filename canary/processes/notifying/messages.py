"""What each kind of receiver is sent: headers and a body, made of a notification alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import orjson

from api.rest.incidents import IncidentOut
from api.shapes import rfc3339
from canary.anomalies.policy import DRILL, REHEARSALS, class_of
from canary.extras import require
from canary.settings.notify.receivers import Kind
from storage.store.receivers import Notification
from storage.store.values import Incident

SERVICE: Final = "kafka-durability-canary"
_MOST: Final = 1000
"""At most so many characters of a sentence: PagerDuty takes 1,024."""


@dataclass(frozen=True, slots=True)
class Message:
    """A body and what it is."""

    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Told:
    """A notification as it is told. ``address``: of the canary's pages, None if it is not known."""

    notification: Notification
    address: str | None

    @property
    def incident(self) -> Incident:
        """The incident as it was then; another version may have written it, with other fields."""
        known = self.notification.incident
        before_heads = {"head_id": known.get("lead_id"), "head_ns": known.get("first_ns"), "openings": 1}
        own: dict[str, Any] = {one.name: (before_heads | dict(known)).get(one.name) for one in fields(Incident)}
        return Incident(**own)

    @property
    def over(self) -> bool:
        """Whether it is the end of the incident."""
        return self.notification.change == "resolved"

    @property
    def lost_records(self) -> int:
        """How many acknowledged writes were known to be lost in the incident; more may be found later."""
        return int(self.notification.incident.get("lost_records", 0))

    @property
    def alerts(self) -> list[str]:
        """The names of a pager's alerts: the incident's id, then one for each severity and class.

        It is the last one that rings now, unless the incident is over; where it is there twice, it has rung before.
        """
        one = self.incident.id
        first, *others = self.notification.alerts or ("",)
        return [one, *(one if told == first else f"{one}-{told.replace(' ', '-')}" for told in others)]

    @property
    def title(self) -> str:
        """What has happened, and where: on one line, at most _MOST characters."""
        one = self.incident
        place = f"{one.cluster}, topic {one.topic}" if one.topic else one.cluster
        place += "" if one.partition is None else f", partition {one.partition}"
        mark = {DRILL: "DRILL, nothing is wrong: "}.get(one.kind, "TEST, " if one.kind in REHEARSALS else "")
        lost = f"{self.lost_records:,} acknowledged writes are known to be lost. " if self.lost_records > 1 else ""
        summary = " ".join(one.summary.split())
        words = f"{mark}{one.severity} {one.kind} {self.notification.change} in {place}: {lost}{summary}"
        return words if len(words) <= _MOST else f"{words[: _MOST - 1]}…"

    @property
    def links(self) -> dict[str, str]:
        """The addresses of the incident's page and of the runbook, by their names."""
        if self.address is None:
            return {}
        one = self.incident
        return {"incident": f"{self.address}/incidents/{one.id}", "runbook": f"{self.address}/runbooks/{one.kind}"}

    @property
    def data(self) -> dict[str, Any]:
        """The incident as REST shows it, with what is told of it."""
        own = IncidentOut.model_validate(self.incident).model_dump(mode="json")
        drill = self.incident.kind in REHEARSALS
        told = {"change": self.notification.change, "drill": drill, "incident": own, "links": self.links}
        return told | {"lost_records": self.lost_records}


def messages(kind: Kind, key: str | None, notification: Notification, address: str | None) -> list[Message]:
    """Return what a receiver of a kind is sent, in order; ``key`` is PagerDuty's routing key.

    Raises:
        UserError: the kind needs an extra that is not installed.
    """
    told = Told(notification, address)
    return _pagerduty(told, key) if kind == "pagerduty" else [_KINDS[kind](told)]


def _slack(told: Told) -> Message:
    sign = (
        ":large_green_circle:"
        if told.over
        else {"critical": ":red_circle:"}.get(told.incident.severity, ":large_orange_circle:")
    )
    links = "".join(f" · <{url}|{name}>" for name, url in told.links.items())
    return _json({"text": f"{sign} {_escaped(told.title)}{links}"})


def _escaped(text: str) -> str:
    """Return a text as Slack takes it: what a topic or a summary holds makes no link and mentions nobody."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _pagerduty(told: Told, key: str | None) -> list[Message]:
    """Return one event; at the end of an incident one for each alert that it rang.

    What has rung before and is over rings again only when it was resolved there.
    """
    one = told.incident
    event: dict[str, Any] = {"routing_key": key, "client": SERVICE}
    *before, last = told.alerts
    past = told.alerts if told.over else [last] if last in before else []
    ends = [_json(event | {"dedup_key": alert, "event_action": "resolve"}) for alert in past]
    if told.over:
        return ends
    event |= {"dedup_key": last, "event_action": "trigger"}
    event["links"] = [{"href": url, "text": name} for name, url in told.links.items()]
    event["payload"] = {
        "summary": told.title,
        "source": one.cluster,
        "severity": one.severity,
        "timestamp": rfc3339(one.head_ns),
        "component": one.topic,
        "group": class_of(one.kind),
        "class": one.kind,
        "custom_details": told.data,
    }
    return [*ends, _json(event)]


def _cloudevent(told: Told) -> Message:
    event = {
        "specversion": "1.0",
        "id": told.notification.id,
        "source": told.address or f"urn:{SERVICE}",
        "type": f"{SERVICE}.incident.{told.notification.change}",
        "subject": told.incident.id,
        "time": rfc3339(told.notification.at_ns),
        "datacontenttype": "application/json",
        "data": told.data,
    }
    return _json(event, "application/cloudevents+json")


_SEVERITY_NUMBERS: Final[Mapping[str, int]] = {"info": 9, "warning": 13, "critical": 21}
"""OpenTelemetry's INFO, WARN and FATAL."""


def _otlp(told: Told) -> Message:
    require("otlp", "notify (kind: otlp)")
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest  # noqa: PLC0415
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue  # noqa: PLC0415

    def attributes(values: Mapping[str, object]) -> list[KeyValue]:
        texts = {name: str(value) for name, value in values.items() if value is not None}
        return [KeyValue(key=name, value=AnyValue(string_value=text)) for name, text in texts.items()]

    one, note = told.incident, told.notification
    request = ExportLogsServiceRequest()
    logs = request.resource_logs.add()
    logs.resource.attributes.extend(attributes({"service.name": SERVICE}))
    record = logs.scope_logs.add().log_records.add(
        time_unix_nano=one.last_ns,
        observed_time_unix_nano=note.at_ns,
        severity_number=_SEVERITY_NUMBERS["info" if told.over else one.severity],
        severity_text=one.severity,
        body=AnyValue(string_value=told.title),
        event_name=f"{SERVICE}.incident.{note.change}",
    )
    shown = {name: value for name, value in told.data["incident"].items() if name != "id"}
    flat = {name: told.data[name] for name in ("change", "drill", "lost_records")} | {"id": note.id, "incident": one.id}
    record.attributes.extend(attributes({f"canary.{name}": value for name, value in (shown | flat).items()}))
    return Message("application/x-protobuf", request.SerializeToString())


def _json(document: Mapping[str, Any], content_type: str = "application/json") -> Message:
    return Message(content_type, orjson.dumps(document))


_KINDS: Final[Mapping[Kind, Callable[[Told], Message]]] = {
    "slack": _slack,
    "webhook": _cloudevent,
    "otlp": _otlp,
}
