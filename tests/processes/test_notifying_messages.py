"""What each kind of receiver is sent, and which settings of one are refused."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse

from canary.processes.notifying import sending
from canary.processes.notifying.messages import messages
from canary.processes.notifying.sending import NotTakenError
from canary.settings import SettingsError, load, redacted, secrets_of
from canary.settings.notify.receivers import PAGERDUTY, ReceiverSettings
from storage.store.receivers import Notification
from tests.support.receiving import Answer, receiving

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from canary.settings.notify.receivers import Kind

AT_NS = 1_767_225_600 * 10**9
ID = "4f" * 16
INCIDENT = {
    "id": ID,
    "cluster": "prod-eu",
    "topic": "orders <!channel>",
    "topic_id": "t",
    "partition": 2,
    "lead_id": ID,
    "head_id": ID,
    "head_ns": AT_NS,
    "kind": "lost-write",
    "severity": "critical",
    "summary": "3 writes & their offsets are gone",
    "state": "open",
    "reason": None,
    "note": None,
    "first_ns": AT_NS,
    "last_ns": AT_NS + 10**9,
}


def notification(change: Any = "opened", alerts: Sequence[str] = (), **of_incident: Any) -> Notification:
    incident = INCIDENT | of_incident
    place = "id-1", "r", ID, 1, "prod-eu", change, str(incident["severity"]), 1, 1, alerts, incident
    return Notification(*place, AT_NS + 2 * 10**9, "waiting", 0, AT_NS, None, None)


def sent(to: Kind, change: Any = "opened", address: str | None = "https://canary", **of_incident: Any) -> Any:
    return orjson.loads(messages(to, "routing-key", notification(change, **of_incident), address)[-1].body)


def test_pagerduty_opens_and_resolves_one_alert_for_an_incident() -> None:
    opened = sent("pagerduty")
    assert (opened["event_action"], opened["dedup_key"], opened["routing_key"]) == ("trigger", ID, "routing-key")
    assert opened["payload"]["severity"] == "critical"
    assert opened["payload"]["summary"].startswith("critical lost-write opened in prod-eu, topic orders")
    assert opened["payload"]["timestamp"] == "2026-01-01T00:00:00.000Z"
    assert [one["href"] for one in opened["links"]] == [
        f"https://canary/incidents/{ID}",
        "https://canary/runbooks/lost-write",
    ]
    assert sent("pagerduty", "worsened")["dedup_key"] == sent("pagerduty", "reopened")["dedup_key"] == ID
    over = sent("pagerduty", "resolved", state="resolved")
    assert (over["event_action"], over["dedup_key"]) == ("resolve", ID)
    assert len(sent("pagerduty", summary="x" * 5000)["payload"]["summary"]) <= 1024
    many = sent("pagerduty", lost_records=200_000)["payload"]["summary"]
    assert "partition 2: 200,000 acknowledged writes are known to be lost. 3 writes &" in many
    assert "are known to be lost" not in sent("pagerduty", lost_records=0)["payload"]["summary"]
    assert sent("webhook", lost_records=16)["data"]["lost_records"] == 16


def test_what_is_worse_rings_by_itself_at_pagerduty_and_all_of_it_is_over_at_the_end() -> None:
    told = ["critical unavailability", "critical data"]
    loss = notification("worsened", told)
    (event,) = [orjson.loads(one.body) for one in messages("pagerduty", "k", loss, None)]
    assert (event["event_action"], event["dedup_key"]) == ("trigger", f"{ID}-critical-data")
    assert (event["payload"]["group"], event["payload"]["class"]) == ("data", "lost-write")
    over = [orjson.loads(one.body) for one in messages("pagerduty", "k", notification("resolved", told), None)]
    assert [one["dedup_key"] for one in over] == [ID, f"{ID}-critical-data"]
    assert {one["event_action"] for one in over} == {"resolve"}


def test_what_has_rung_before_is_resolved_first_so_that_it_rings_again_under_its_name() -> None:
    for told, key in (
        (["critical unavailability", "critical unavailability"], ID),
        (["critical unavailability", "warning data", "critical unavailability"], ID),
        (["warning data", "critical data", "critical data"], f"{ID}-critical-data"),
    ):
        events = [orjson.loads(one.body) for one in messages("pagerduty", "k", notification("worsened", told), None)]
        assert [(one["event_action"], one["dedup_key"]) for one in events] == [("resolve", key), ("trigger", key)]


def test_slack_gets_a_line_in_which_nothing_of_the_incident_is_markup() -> None:
    text = sent("slack")["text"]
    assert "orders &lt;!channel&gt;" in text
    assert "3 writes &amp; their offsets" in text
    assert f"<https://canary/incidents/{ID}|incident>" in text
    assert "<" not in sent("slack", address=None)["text"], "no links where the address is not known"
    assert text.startswith(":red_circle:")
    assert sent("slack", "resolved")["text"].startswith(":large_green_circle:")


@pytest.mark.parametrize(("kind", "mark"), [("drill", "DRILL, nothing is wrong: "), ("alert-test", "TEST, ")])
def test_a_rehearsal_is_marked_wherever_it_goes(kind: str, mark: str) -> None:
    assert mark in sent("slack", kind=kind)["text"]
    assert sent("pagerduty", kind=kind)["payload"]["summary"].startswith(mark)
    assert sent("webhook", kind=kind)["data"]["drill"] is True
    assert sent("webhook")["data"]["drill"] is False


def test_a_cloud_event_has_what_version_1_asks_for() -> None:
    event = sent("webhook", address=None)
    assert event["specversion"] == "1.0"
    assert {"id", "source", "type"} <= {name for name, value in event.items() if isinstance(value, str) and value}
    assert event["time"] == "2026-01-01T00:00:02.000Z"
    assert event["data"]["incident"] == {
        **{name: INCIDENT[name] for name in ("id", "cluster", "topic", "partition", "kind", "severity", "state")},
        "summary": INCIDENT["summary"],
        "class": "data",
        "reason": None,
        "note": None,
        "head_id": ID,
        "lead_id": ID,
        "head_seen_at": "2026-01-01T00:00:00.000Z",
        "first_seen_at": "2026-01-01T00:00:00.000Z",
        "last_seen_at": "2026-01-01T00:00:01.000Z",
    }


def test_an_incident_that_another_version_wrote_is_told_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sent("webhook", of_tomorrow=1)["data"]["incident"]["id"] == ID
    for name in ("head_id", "head_ns"):
        monkeypatch.delitem(INCIDENT, name)
    assert sent("webhook")["data"]["incident"]["head_id"] == ID
    assert sent("pagerduty")["payload"]["timestamp"] == "2026-01-01T00:00:00.000Z"


def test_a_log_record_of_opentelemetry_tells_the_same() -> None:
    made = messages("otlp", None, notification(), None)[0]
    assert made.content_type == "application/x-protobuf"
    (resource,) = ExportLogsServiceRequest.FromString(made.body).resource_logs
    assert [(one.key, one.value.string_value) for one in resource.resource.attributes] == [
        ("service.name", "kafka-durability-canary")
    ]
    (record,) = resource.scope_logs[0].log_records
    values = {one.key: one.value.string_value for one in record.attributes}
    assert record.event_name == "kafka-durability-canary.incident.opened"
    assert (record.severity_number, record.severity_text) == (21, "critical")
    assert (record.time_unix_nano, record.observed_time_unix_nano) == (AT_NS + 10**9, AT_NS + 2 * 10**9)
    assert record.body.string_value.startswith("critical lost-write opened in prod-eu")
    expected = {"incident": ID, "id": "id-1", "change": "opened", "partition": "2", "kind": "lost-write"}
    assert {name: values[f"canary.{name}"] for name in expected} == expected
    over = ExportLogsServiceRequest.FromString(messages("otlp", None, notification("resolved"), None)[0].body)
    assert over.resource_logs[0].scope_logs[0].log_records[0].severity_number == 9


def receiver(**given: Any) -> ReceiverSettings:
    return ReceiverSettings.model_validate({"name": "r", **given})


def test_a_collector_that_rejects_the_record_has_not_taken_it() -> None:
    rejects = ExportLogsServiceResponse()
    rejects.partial_success.rejected_log_records = 1
    warns = ExportLogsServiceResponse()
    warns.partial_success.error_message = "taken, with a word of warning"
    sent_to = messages("otlp", None, notification(), None)[0]
    with receiving() as there, sending.client() as http:
        collector = receiver(kind="otlp", url=f"{there.url}/v1/logs")
        for taken in (b"", warns.SerializeToString()):
            there.always = Answer(body=taken)
            sending.send(http, collector, sent_to)
        for body, why in ((rejects.SerializeToString(), "rejects"), (b"\xff\xff", "collector"), (b"x" * 10**6, "long")):
            there.always = Answer(body=body)
            with pytest.raises(NotTakenError, match=why):
                sending.send(http, collector, sent_to)
        assert ExportLogsServiceRequest.FromString(there.requests[0].body).resource_logs
        assert there.requests[0].path == "/v1/logs"


@pytest.mark.parametrize(
    ("said", "wait_s"),
    [("7", 7), ("0", 0), ("999999", 3600), ("soon", None), ("", None), ("-5", None), ("Fri, 32 Jan 2026", None)],
)
def test_retry_after_is_bounded_and_nonsense_is_none(said: str, wait_s: float | None) -> None:
    with receiving() as there, sending.client() as http:
        there.always = Answer(503, {"Retry-After": said})
        with pytest.raises(NotTakenError) as refused:
            sending.send(
                http, receiver(kind="webhook", url=there.url), messages("slack", None, notification(), None)[0]
            )
    assert refused.value.wait_s == wait_s
    assert not refused.value.alone


def test_retry_after_may_be_a_date() -> None:
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 600))
    wait_s = sending._wait_s({"retry-after": date})
    assert wait_s is not None
    assert 500 < wait_s <= 600
    assert sending._wait_s({"retry-after": "Thu, 01 Jan 2026 00:00:00 GMT"}) == 0


def test_a_key_with_a_line_break_is_not_told() -> None:
    with receiving() as there, sending.client() as http:
        odd = receiver(kind="webhook", url=there.url, key="secret-key\nX: y")
        with pytest.raises(NotTakenError) as refused:
            sending.send(http, odd, messages("webhook", None, notification(), None)[0])
    assert "secret" not in str(refused.value)
    assert there.requests == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "slack"}, "where notifications are sent"),
        ({"kind": "pagerduty"}, "routing key"),
        ({"kind": "webhook", "url": "ftp://x/y"}, "no address"),
        ({"kind": "webhook", "url": "https:///y"}, "no address"),
        ({"kind": "slack", "url": "http://hooks.example/secret-path"}, "in the clear"),
        ({"kind": "webhook", "url": "http://bus.example/", "key": "k"}, "in the clear"),
        ({"kind": "slack", "url": "https://hooks.example/x", "key": "k"}, "has no key"),
        ({"kind": "pagerduty", "key": "k", "clusters": ["other"]}, "no cluster other"),
        ({"kind": "heartbeat"}, "where notifications are sent"),
        ({"kind": "heartbeat", "url": "http://hc.example/secret-path"}, "in the clear"),
        ({"kind": "heartbeat", "url": "https://hc.example/x", "severities": ["info"]}, "leave out severities"),
        ({"kind": "heartbeat", "url": "https://hc.example/x", "key": "k", "drills": True}, "leave out drills, key"),
        ({"kind": "heartbeat", "url": "https://hc.example/x", "clusters": ["other"]}, "no cluster other"),
        ({"kind": "email", "url": "https://x/"}, "slack"),
    ],
)
def test_a_receiver_that_cannot_work_is_refused_by_its_place(given: dict[str, Any], said: str, tmp_path: Path) -> None:
    file = tmp_path / "canary.yaml"
    file.write_bytes(orjson.dumps({"notify": [{"name": "r", **given}]}))
    with pytest.raises(SettingsError) as refused:
        load(file, {})
    assert "notify[0]" in str(refused.value)
    assert said in str(refused.value)
    assert "secret-path" not in str(refused.value)


def test_two_receivers_have_two_names_and_secrets_are_hidden(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("the-routing-key\n")
    file = tmp_path / "canary.yaml"
    pager = {"name": "r", "kind": "pagerduty", "key": {"file": str(tmp_path / "key")}}
    chat = {"name": "chat", "kind": "slack", "url": "https://hooks.example/services/secret"}
    file.write_bytes(orjson.dumps({"notify": [pager, chat | {"name": "r"}]}))
    with pytest.raises(SettingsError, match="two receivers are called r"):
        load(file, {})
    pulse = {"name": "pulse", "kind": "heartbeat", "url": "https://hc.example/a-secret-uuid"}
    file.write_bytes(orjson.dumps({"notify": [pager, chat, pulse]}))
    settings = load(
        file, {"CANARY_NOTIFY__CHAT__SEVERITIES": "[critical, warning]", "CANARY_NOTIFY__0__DRILLS": "true"}
    )
    first, second, _ = settings.notify
    assert (first.address, first.drills, first.severities) == (PAGERDUTY, True, ("critical",))
    assert second.severities == ("critical", "warning")
    assert {"the-routing-key", "https://hooks.example/services/secret", "/services/secret"} <= secrets_of(settings)
    shown = str(redacted(settings))
    assert "the-routing-key" not in shown
    assert "services/secret" not in shown
    assert {"https://hc.example/a-secret-uuid", "/a-secret-uuid"} <= secrets_of(settings)
    assert "a-secret-uuid" not in shown
    with pytest.raises(SettingsError, match="no 'mail' in notify"):
        load(file, {"CANARY_NOTIFY__MAIL__DRILLS": "true"})
