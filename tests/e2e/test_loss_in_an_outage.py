"""A power cut takes acknowledged writes, and begins as an outage: what is told of it, by every way, in which order."""

from __future__ import annotations

import html
import os
import re
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from canary.anomalies.catalogue import CATALOGUE
from tests.support.http_client import HTTP, PATIENCE_S
from tests.support.monitoring import firing, monitoring
from tests.support.process import Canary, acknowledged, identities
from tests.support.receiving import receiving
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from canary.lab import Lab
    from tests.support.receiving import Receiving, Request

pytestmark = [pytest.mark.e2e, pytest.mark.kafka, pytest.mark.quick]

TOPIC = "loss-in-an-outage"
BOTH = (0, 1)
HOLDERS = (2, 3)
"""The brokers that have replicas. Broker 1 has none: whichever of them went last, no partition has a leader by it."""
LOSS, OUTAGE, OFFSETS = "lost-write", "offline-partition", "inconsistent-offsets"
CUT = 16
"""So many records are cut off each partition; the last ones of them may not have been acknowledged."""
TOLD_S = 60.0


@pytest.mark.timeout(1800)
def test_a_loss_in_an_outage_is_told_as_a_loss_by_every_way(lab: Lab, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": lab.bootstrap, "log_level": 0})
    new = NewTopic(TOPIC, 2, replica_assignment=[[2, 3], [3, 2]])
    admin.create_topics([new])[TOPIC].result(PATIENCE_S)
    with receiving() as webhook, receiving() as pagerduty, receiving() as pager:
        told = {"webhook": webhook, "PagerDuty": pagerduty, "Alertmanager": pager}
        canary = Canary(
            tmp_path / "canary", lab.bootstrap, TOPIC, settings=_settings(lab.bootstrap, webhook, pagerduty)
        )
        with canary, monitoring(tmp_path, [canary.port], [pager.url]) as prometheus:
            canary.until_probing()
            canary.until(lambda: canary.metric("canary_probes_acked_total") > 4 * CUT, 60, "more is there than is cut")
            began = time.time()
            _lose(lab, canary)
            try:
                canary.until(lambda: _headed(canary) == dict.fromkeys(BOTH, LOSS), 60, "the loss heads both")
                until(lambda: len(_losses(webhook)) == len(BOTH), TOLD_S, "the webhook is told of both losses")
                until(lambda: len(_triggers(pagerduty)) >= 2 * len(BOTH), TOLD_S, "PagerDuty is rung again")
                until(lambda: _paged(pager), TOLD_S, "Alertmanager pages of lost data")
                until(lambda: _named_by(prometheus) == _places(), TOLD_S, "the alert names both partitions")
            finally:
                _record(told, began, Path(os.environ.get("RECORD_SENT") or tmp_path / "sent.md"))
            changes = [one.json["data"] for one in list(webhook.requests)]
            own = [one["change"] for one in changes if one["incident"]["topic"] == "__consumer_offsets"]
            assert own in ([], ["opened"], ["opened", "resolved"]), "however many partitions it has"
            for partition in BOTH:
                _told_in_order(webhook, pagerduty, partition)
            canary.until_probing()
            canary.until_all_seen()
            canary.until_no_doubt()
            alert = _paged(pager)[0]
            assert any(place in alert["annotations"]["description"] for place in _places())
            page = HTTP.get(alert["annotations"]["incident_url"], follow_redirects=True).raise_for_status().text
            screens = [HTTP.get(f"{canary.base}/incidents/{one['id']}").text for one in _incidents(canary)]
            assert canary.stop() == [0, 0]
    kept, there = acknowledged(canary.directory), identities(lab.bootstrap, TOPIC)
    lost = Counter(who.partition for who in kept if who not in there)
    assert set(lost) == set(BOTH)
    assert max(lost.values()) <= CUT + 1
    for screen in (page, *screens):
        _says_the_loss(screen, lost)


def _settings(bootstrap: str, webhook: Receiving, pagerduty: Receiving) -> dict[str, Any]:
    cluster = {
        "name": "t",
        "kafka": {"bootstrap.servers": bootstrap},
        "topic": {"name": TOPIC, "partitions": 2},
        "modes": {"idempotent": {"interval": "100ms"}},
        "watch": {"offline_after": "1s"},
    }
    notify = [
        {"name": "bus", "kind": "webhook", "url": webhook.url},
        {"name": "pager", "kind": "pagerduty", "url": pagerduty.url, "key": "a-routing-key"},
    ]
    return {"clusters": [cluster], "notify": notify}


def _lose(lab: Lab, canary: Canary) -> None:
    """Cut the power of all brokers, take what they had not flushed, and let the first of them come back alone."""
    for broker in lab.brokers:
        lab.kill(broker)
    for partition in BOTH:
        end = max(lab.end_offset(broker, TOPIC, partition) for broker in HOLDERS)
        for broker in HOLDERS:
            lab.truncate(broker, TOPIC, partition, to_offset=end - CUT)
    lab.start_broker(1)
    canary.until(lambda: _headed(canary) == dict.fromkeys(BOTH, OUTAGE), 60, "the outage is reported")
    for broker in HOLDERS:
        lab.start_broker(broker, timeout=0)
    lab.wait_ready(including=lab.brokers)


def _incidents(canary: Canary) -> list[dict[str, Any]]:
    return [one for one in canary.items("incidents", state="open") if (one["topic"], one["partition"]) in _topics()]


def _topics() -> set[tuple[str, int]]:
    return {(TOPIC, one) for one in BOTH}


def _places() -> set[str]:
    return {f"{TOPIC}-{one}" for one in BOTH}


def _headed(canary: Canary) -> dict[int, str]:
    return {one["partition"]: one["kind"] for one in _incidents(canary)}


def _events(webhook: Receiving, partition: int) -> list[dict[str, Any]]:
    events = [request.json["data"] for request in list(webhook.requests)]
    return [one for one in events if (one["incident"]["topic"], one["incident"]["partition"]) == (TOPIC, partition)]


def _losses(webhook: Receiving) -> list[dict[str, Any]]:
    """Return the first event of each partition that is headed by the loss."""
    every = ([one for one in _events(webhook, partition) if one["incident"]["kind"] == LOSS] for partition in BOTH)
    return [events[0] for events in every if events]


def _triggers(pagerduty: Receiving) -> list[dict[str, Any]]:
    every = [request.json for request in list(pagerduty.requests)]
    return [one for one in every if one["event_action"] == "trigger" and one["payload"]["component"] == TOPIC]


def _paged(pager: Receiving) -> list[dict[str, Any]]:
    """Return each alert of lost writes that came in a group of the class data."""
    groups = [request.json for request in list(pager.requests)]
    return [
        alert
        for group in groups
        if group["groupLabels"] == {"cluster": "t", "service": "kafka-durability-canary", "class": "data"}
        for alert in group["alerts"]
        if (alert["labels"]["alertname"], alert["status"]) == ("CanaryLostWrite", "firing")
    ]


def _named_by(prometheus: str) -> set[str]:
    """Return which of the partitions the alert names now."""
    alerts = firing(prometheus)
    text = [one["annotations"]["description"] for one in alerts if one["labels"]["alertname"] == "CanaryLostWrite"]
    return {place for place in _places() if place in "".join(text)}


def _told_in_order(webhook: Receiving, pagerduty: Receiving, partition: int) -> None:
    """Check what was told of one partition: first the outage, then the loss, which rings by itself.

    The outage is not said to be over before the loss is known. To a reader that is slow a record may be given at a lost
    one's offset before the loss is known, which rings, too.
    """
    outage, *others = _events(webhook, partition)
    loss = next(one for one in others if one["incident"]["kind"] != OFFSETS)
    assert (outage["change"], outage["incident"]["kind"]) == ("opened", OUTAGE)
    assert (loss["change"], loss["incident"]["kind"]) == ("worsened", LOSS)
    own = loss["incident"]["id"]
    assert own == outage["incident"]["id"]
    assert re.search(r"\d+ records, offsets", loss["incident"]["summary"])
    events = [one.json for one in list(pagerduty.requests) if one.json["dedup_key"].startswith(own)]
    rang = [(one["event_action"], one["dedup_key"], one.get("payload", {}).get("class")) for one in events]
    damage = [one for one in rang[1:2] if one == ("trigger", f"{own}-critical-damage", OFFSETS)]
    assert rang == [("trigger", own, OUTAGE), *damage, ("trigger", f"{own}-critical-data", LOSS)]


def _says_the_loss(page: str, lost: Mapping[int, int]) -> None:
    """Check the first screen of an incident's page, or of the alert's."""
    assert "<h1>Lost write in t</h1>" in page
    first = html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.partition("</article>")[0])))
    (partition,) = (one for one in BOTH if f"{TOPIC}-{one} in t" in first)
    assert (f"{lost[partition]} writes", first) == (next(iter(re.findall(r"\d+ writes", first)), None), first)
    assert CATALOGUE[LOSS].do_first in first
    assert CATALOGUE[OUTAGE].do_first not in first
    assert f"{OUTAGE} came first" in first


def _record(told: Mapping[str, Receiving], began: float, file: Path) -> None:
    """Write down what was sent, in order, as a table."""
    sent = [(request.at - began, way, request) for way, there in told.items() for request in list(there.requests)]
    rows = [f"| {at:.1f} s | {way} | {_words(request)} |" for at, way, request in sorted(sent, key=lambda one: one[0])]
    file.write_text("\n".join(["| after the cut | by | what |", "|---|---|---|", *rows, ""]), encoding="utf-8")


def _words(request: Request) -> str:
    body = request.json
    if "groupLabels" in body:
        alerts = ", ".join(f"{one['labels']['alertname']} {one['status']}" for one in body["alerts"])
        return f"group class={body['groupLabels'].get('class')}: {alerts}"
    if "event_action" in body:
        summary = body.get("payload", {}).get("summary", "")
        return f"{body['event_action']} `{body['dedup_key']}` {summary}"
    data, one = body["data"], body["data"]["incident"]
    return f"{data['change']} {one['severity']} {one['kind']} in {one['topic']}-{one['partition']}: {one['summary']}"
