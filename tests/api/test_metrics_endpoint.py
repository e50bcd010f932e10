from __future__ import annotations

import asyncio
import importlib.metadata
import threading
import time
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError
from starlette.requests import Request

from api import create_app
from api.metrics import collect
from canary.anomalies.catalogue import CATALOGUE
from canary.metrics import METRICS
from canary.settings.serving import ApiSettings
from spark_reconcile.nightly.scheduler import leadership
from storage.store import StoreError
from tests.api.serving import NOW_NS, BrokenStore, Client, lost, partition, scrape, settings, view

if TYPE_CHECKING:
    from storage.store import Store
    from tests.api.serving import Samples


def total(samples: Samples, metric: str, **labels: str) -> float:
    return sum(
        value for (name, own), value in samples.items() if name == metric and labels.items() <= dict(own).items()
    )


def test_every_kind_is_there_at_0_before_anything_happened(client: Client) -> None:
    samples = scrape(client)
    for name, entry in CATALOGUE.items():
        for severity in entry.severities:
            for metric in ("canary_violations_total", "canary_violations_open"):
                assert samples[metric, (("cluster", "prod"), ("kind", name), ("severity", severity))] == 0


def test_a_violation_is_counted_once_however_often_it_is_seen(client: Client, store: Store) -> None:
    for _ in range(3):
        store.violations.record("prod", [lost(1), lost(2)])
    assert total(scrape(client), "canary_violations_total", kind="lost-write", severity="critical") == 2
    assert total(scrape(client), "canary_violations_open", kind="lost-write") == 2


def test_counters_and_histograms_of_two_runners_are_summed_and_gauges_are_not(client: Client, store: Store) -> None:
    store.views.save("prod", "canary-1", time.time_ns(), view(acked=40))
    samples = scrape(client)
    assert total(samples, "canary_probes_acked_total", cluster="prod") == 3 * 140
    assert total(samples, "canary_produce_latency_seconds_count", partition="0") == 140
    assert total(samples, "canary_produce_latency_seconds_sum", partition="0") == pytest.approx(0.007 * 140)
    assert total(samples, "canary_log_end_offset", partition="0") == 100


def test_a_share_is_missing_when_its_runner_does_not_live(store: Store) -> None:
    client = Client(create_app(settings("prod", "new"), store))
    now = time.time_ns()
    for share in range(3):
        store.views.save("prod", f"canary-{share}", now, view(shard=[share, 3]))
    assert total(scrape(client), "canary_shards_missing", cluster="prod") == 0
    assert total(scrape(client), "canary_shards_missing", cluster="new") == 0
    store.views.save("prod", "canary-1", now - 60 * 10**9, view(shard=[1, 3]))
    assert total(scrape(client), "canary_shards_missing", cluster="prod") == 1
    for share in range(3):
        store.views.save("prod", f"canary-{share}", now - 60 * 10**9, view(shard=[share, 3]))
    assert total(scrape(client), "canary_shards_missing", cluster="prod") == 3
    for share in range(2):  # there are two now, and the third is gone for ever
        store.views.save("prod", f"canary-{share}", now, view(shard=[share, 2]))
    assert total(scrape(client), "canary_shards_missing", cluster="prod") == 0


def test_brokers_that_some_share_probes_are_probed(store: Store) -> None:
    client = Client(create_app(settings("prod"), store))
    for share, leaders in ((0, [1, 2]), (1, [2, 3])):  # of brokers 1 to 4
        rows = [partition(2 * number + share, leader=leader) for number, leader in enumerate(leaders)]
        more = [["canary_brokers_without_probe", [], 2]]
        store.views.save("prod", f"canary-{share}", time.time_ns(), view(partitions=rows, more=more, shard=[share, 2]))
    assert total(scrape(client), "canary_brokers_without_probe", cluster="prod") == 1


def test_findings_of_the_audit_are_counted_by_check(client: Client, store: Store) -> None:
    finding = {"check": "min-isr", "severity": "critical"}
    findings = [finding, finding, {"check": "rack", "severity": "info"}]
    store.views.save("prod", "canary-0", time.time_ns(), view(audit={"at_ns": NOW_NS, "findings": findings}))
    samples = scrape(client)
    assert total(samples, "canary_audit_check_findings", check="min-isr", severity="critical") == 2
    assert total(samples, "canary_audit_check_findings") == 3


def test_incidents_have_a_series_until_they_are_resolved(client: Client, store: Store) -> None:
    store.violations.record("prod", [lost(1)])
    incident = store.incidents.page().items[0]
    wanted = {"incident": incident.id, "kind": "lost-write", "partition": "1", "severity": "critical"}
    name = "canary_incident_begin_timestamp_seconds"
    assert total(scrape(client), name, **wanted) == pytest.approx(NOW_NS / 1e9, abs=1)
    store.incidents.acknowledge(incident.id)
    assert total(scrape(client), name, **wanted) > 0
    store.incidents.resolve(incident.id, "lost", NOW_NS)
    assert total(scrape(client), name) == 0


def test_the_address_of_the_pages_is_told(store: Store) -> None:
    addresses: tuple[tuple[dict[str, Any], str], ...] = (
        ({"url": "https://canary.example/"}, "https://canary.example"),
        ({"host": "::1"}, "http://[::1]:8080"),
        ({"host": "0.0.0.0", "url": "https://canary.example"}, "https://canary.example"),
    )
    for told, address in addresses:
        samples = scrape(Client(create_app(settings("prod", auth={"required": "never"}, **told), store)))
        assert samples["canary_api_info", (("url", address),)] == 1


@pytest.mark.parametrize("told", [{"host": "0.0.0.0"}, {"host": "::"}, {"host": "0"}, {"port": 0}])
def test_an_address_that_nobody_can_follow_is_not_told(store: Store, told: dict[str, Any]) -> None:
    text = Client(create_app(settings("prod", auth={"required": "never"}, **told), store)).get("/metrics").text
    assert "canary_api_store_up 1.0" in text
    assert "canary_api_info" not in text
    assert "0.0.0.0" not in text


@pytest.mark.parametrize("url", ["http://", "https://:8080", "http://0.0.0.0", "http://[::]/"])
def test_an_address_without_a_host_that_a_browser_reaches_cannot_be_set(url: str) -> None:
    with pytest.raises(ValidationError, match="no browser reaches this address"):
        ApiSettings.model_validate({"url": url})


def test_scrapes_at_one_moment_wait_together_for_a_store_that_hangs() -> None:
    released, asked = threading.Event(), []

    def hang() -> None:
        asked.append(1)
        released.wait(60)
        raise StoreError("away")

    app = create_app(settings("prod"), BrokenStore(hang))

    async def scrapes() -> list[bytes]:
        request = Request({"type": "http", "headers": [], "app": app})
        waiting = [asyncio.ensure_future(collect.metrics(request, app.state.canary)) for _ in range(3)]
        await asyncio.sleep(0)  # each has come to where it waits
        released.set()
        return [bytes(answer.body) for answer in await asyncio.gather(*waiting)]

    assert all(b"canary_api_store_up 0.0" in text for text in asyncio.run(scrapes()))
    assert len(asked) == 1


def test_histogram_buckets_are_cumulated(client: Client) -> None:
    samples = scrape(client)
    buckets = {
        dict(own)["le"]: value
        for (name, own), value in samples.items()
        if name == "canary_produce_latency_seconds_bucket" and dict(own)["partition"] == "0"
    }
    assert buckets["0.005"] == 0
    assert buckets["0.01"] == buckets["30.0"] == buckets["+Inf"] == 100


def test_a_dead_runners_counters_stay_and_its_gauges_go(client: Client, store: Store) -> None:
    before = total(scrape(client), "canary_probes_acked_total")
    store.views.save("prod", "canary-0", time.time_ns() - 3_600_000_000_000, view())
    samples = scrape(client)
    assert total(samples, "canary_probes_acked_total") == before
    assert not [name for name, _ in samples if name == "canary_log_end_offset"]
    assert time.time() - total(samples, "canary_runner_heartbeat_timestamp_seconds") == pytest.approx(3600, abs=30)


def test_how_far_a_live_runners_clock_is_from_the_apis_is_measured(client: Client, store: Store) -> None:
    name = "canary_clock_difference_seconds"
    for ahead_s in (-3600, 3600, 0):
        for _ in range(2):
            told_ns = time.time_ns() + ahead_s * 10**9
            store.views.save("prod", "canary-0", told_ns, view(told_ns=told_ns))
            samples = scrape(client)
        assert total(samples, name, cluster="prod", runner="canary-0") == pytest.approx(ahead_s, abs=30)
    store.views.save("new", "canary-0", time.time_ns() - 3_600_000_000_000, view())
    assert (name, (("cluster", "new"), ("runner", "canary-0"))) not in scrape(client), "nothing is known of it"


def test_a_configured_cluster_that_no_runner_ever_probed_has_a_heartbeat_as_old_as_can_be(store: Store) -> None:
    store.views.save("prod", "canary-0", time.time_ns(), view())
    samples = scrape(Client(create_app(settings("prod", "new"), store)))
    name = "canary_runner_heartbeat_timestamp_seconds"
    assert samples[name, (("cluster", "new"), ("runner", ""))] == 0
    assert (name, (("cluster", "prod"), ("runner", ""))) not in samples


def test_the_loss_rate_is_bounded_from_what_was_acknowledged_and_lost(client: Client, store: Store) -> None:
    assert total(scrape(client), "canary_loss_rate_upper_bound") == pytest.approx(1 - 0.05 ** (1 / 300), rel=1e-9)
    store.violations.record("prod", [lost(1)])
    assert total(scrape(client), "canary_loss_rate_upper_bound") == pytest.approx(0.015717, rel=1e-3)


def test_the_last_reconciliation_that_ended_well_is_shown(client: Client, store: Store) -> None:
    asked = store.reconciliations.request("prod", "test", NOW_NS)
    assert store.reconciliations.claim("me", NOW_NS)
    store.reconciliations.finish(
        asked.id, "me", NOW_NS, summary={"unjudged": [{"partition": 1}]}, verdicts={"survived": 299, "lost": 1}
    )
    samples = scrape(client)
    assert total(samples, "canary_reconcile_verdicts", verdict="lost") == 1
    assert total(samples, "canary_reconcile_unjudged", cluster="prod") == 1
    assert total(samples, "canary_reconcile_last_success_timestamp_seconds") == pytest.approx(NOW_NS / 1e9, abs=1)


@pytest.mark.parametrize(
    "digests",
    [
        {"succeeded_ns": NOW_NS, "unknown_partitions": 0, "records": 5},
        {"succeeded_ns": NOW_NS, "unknown_partitions": 3, "error": "no answer"},
    ],
)
def test_digests_of_the_last_reconciliation_are_shown_also_if_they_failed(
    digests: dict[str, Any], client: Client, store: Store
) -> None:
    asked = store.reconciliations.request("prod", "test", NOW_NS)
    assert store.reconciliations.claim("me", NOW_NS)
    store.reconciliations.finish(asked.id, "me", NOW_NS, summary={"digests": digests})
    samples = scrape(client)
    assert total(samples, "canary_digest_unknown") == digests["unknown_partitions"]
    assert total(samples, "canary_digest_records") == digests.get("records", 0)
    made = total(samples, "canary_digest_last_success_timestamp_seconds")
    assert made == pytest.approx(NOW_NS / 1e9, abs=1)


def test_the_check_of_receipts_is_shown_also_if_it_failed(client: Client, store: Store) -> None:
    every: tuple[dict[str, Any], ...] = (
        {"succeeded_ns": NOW_NS, "unknown": 0, "records": 5},
        {"succeeded_ns": NOW_NS, "unknown": 1, "error": "no answer"},
        {"succeeded_ns": None, "unknown": 4, "records": 7},
    )
    for receipts in every:
        asked = store.reconciliations.request("prod", "test", NOW_NS)
        assert store.reconciliations.claim("me", NOW_NS)
        store.reconciliations.finish(asked.id, "me", NOW_NS, summary={"receipts": receipts})
        samples = scrape(client)
        assert total(samples, "canary_receipts_unknown") == receipts["unknown"]
        assert total(samples, "canary_receipts_records") == receipts.get("records", 0)
        made = total(samples, "canary_receipts_last_success_timestamp_seconds")
        assert made == pytest.approx((receipts["succeeded_ns"] or 0) / 1e9, abs=1)


def test_a_reconciliation_that_a_clock_dated_ahead_hides_no_missed_night(client: Client, store: Store) -> None:
    for ended_ns in (NOW_NS, time.time_ns() + 86_400 * 10**9):
        asked = store.reconciliations.request("prod", "test", ended_ns)
        assert store.reconciliations.claim("me", ended_ns)
        store.reconciliations.finish(asked.id, "me", ended_ns)
    shown = total(scrape(client), "canary_reconcile_last_success_timestamp_seconds")
    assert shown == pytest.approx(NOW_NS / 1e9, abs=1)


def test_what_nights_are_missed_by_is_told_also_by_a_runner_that_is_dead_and_of_a_cluster_without_a_good_one(
    store: Store,
) -> None:
    began_ns = NOW_NS - 50 * 10**9
    for name, night_s, ago_s in (("canary-0", 86400.0, 3600), ("canary-1", 21600.0, 7200)):
        content = view(since_ns=began_ns, night_s=night_s, night_asked=True)
        store.views.save("prod", name, time.time_ns() - ago_s * 10**9, content)
    store.views.save("unscheduled", "canary-0", time.time_ns(), view())
    samples = scrape(Client(create_app(settings("prod", "new"), store)))
    series = {labels: value for (name, labels), value in samples.items() if name == "canary_reconcile_interval_seconds"}
    assert series == {(("cluster", "prod"),): 86400}
    began = samples["canary_probing_since_timestamp_seconds", (("cluster", "prod"),)]
    assert began == pytest.approx(began_ns / 1e9)
    assert not [labels for name, labels in samples if name == "canary_reconcile_last_success_timestamp_seconds"]


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("scheduler", [False, True])
@pytest.mark.parametrize("night_s", [None, 86400.0])
def test_nights_are_due_only_where_the_settings_ask_for_them_or_a_scheduler_was_there(
    *, asked: bool, scheduler: bool, night_s: float | None, store: Store
) -> None:
    store.views.save("prod", "canary-0", time.time_ns(), view(night_s=night_s, night_asked=asked))
    if scheduler:
        leads = leadership(store, "one", ["prod"])
        assert leads.renew() == {"prod"}
        leads.release()  # it has ended, and nobody does its nights
    app = create_app(settings("prod", "new"), store)
    client = Client(app)
    due = [labels for name, labels in scrape(client) if name == "canary_reconcile_interval_seconds"]
    assert due == ([(("cluster", "prod"),)] if night_s and (asked or scheduler) else [])
    said = client.get("/api/v1/clusters/prod/summary").json()["no_nights"]
    remedy = "schedule.reconcile is never" if night_s is None else "kafka-durability-canary[spark]"
    assert (said is None) == bool(night_s and scheduler)
    assert said is None or remedy in said
    for page in ("/", "/clusters/prod", "/reconciliations", "/reconciliations?cluster=prod"):
        assert (remedy in client.get(page).text) == (said is not None), page
    assert client.get("/api/v1/clusters/new/summary").json()["no_nights"] is None  # no runner, nothing known
    limited = asyncio.run(app.state.canary.of(frozenset({"prod"})).knowledge())
    assert limited.clusters["prod"].no_nights == said
    store.retention.forget("prod", time.time_ns())
    assert store.leases.scheduled() == frozenset()


def refuse() -> None:
    raise StoreError("the store is away")


SERVED = "canary_api_cluster_store_up"


def test_each_cluster_says_whether_its_store_is_reached_also_one_that_only_the_store_knew(store: Store) -> None:
    """Rules judge absence by these series; the cluster `unset` is in no settings of the API, and keeps its series."""
    app = create_app(settings("prod", auth={"required": "never"}), store)
    client = Client(app)
    served = {(("cluster", name),) for name in ("prod", "unset")}
    store.views.save("unset", "canary-0", NOW_NS, b"{}")
    assert dict.fromkeys(served, 1) == of_name(scrape(client), SERVED)
    app.state.canary.rendered.texts.clear()
    app.state.canary = replace(app.state.canary, store=BrokenStore(refuse))
    assert dict.fromkeys(served, 0) == of_name(scrape(client), SERVED)


def test_a_heartbeat_shows_when_it_was_called_and_nothing_that_waits(store: Store) -> None:
    client = Client(create_app(settings("prod", notify=("pulse", "bus"), auth={"required": "never"}), store))
    name, pulse = "canary_notify_heartbeat_timestamp_seconds", (("receiver", "pulse"),)
    assert of_name(scrape(client), name) == {pulse: 0}, "never"
    store.notifications.register(["pulse"], NOW_NS)
    store.notifications.looked("pulse", NOW_NS)
    samples = scrape(client)
    assert of_name(samples, name) == {pulse: NOW_NS / 1e9}
    assert set(of_name(samples, "canary_notifications_oldest_seconds")) == {(("receiver", "bus"),)}
    assert set(of_name(samples, "canary_notifications_waiting")) == {(("receiver", "bus"),)}


def of_name(samples: dict[Any, float], name: str) -> dict[Any, float]:
    return {labels: value for (one, labels), value in samples.items() if one == name}


def hang() -> None:
    threading.Event().wait(30)


@pytest.mark.parametrize("how", [refuse, hang])
def test_without_the_store_metrics_answer_within_2_s_and_show_nothing_stale(
    how: object, patience: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "STORE_TIMEOUT_S", patience)
    client = Client(create_app(settings("prod"), BrokenStore(how)))  # type: ignore[arg-type]
    took: list[float] = []
    while len(took) < 3 or (len(took) < 10 and min(took) >= 2):  # the machine has other things to do as well
        began = time.monotonic()
        samples = scrape(client)
        took.append(time.monotonic() - began)
    assert min(took) < 2
    assert samples["canary_api_store_up", ()] == 0
    shown = {name for name, _ in samples if name.startswith("canary_")}
    wanted = {"canary_api_store_up", "canary_api_store_writable", SERVED, "canary_build_info", "canary_api_info"}
    assert shown == wanted
    assert samples[SERVED, (("cluster", "prod"),)] == 0
    assert "process_cpu_seconds_total" in {name for name, _ in samples}


def test_only_metrics_of_the_catalogue_are_shown(client: Client, store: Store) -> None:
    strange = [
        ["canary_made_up", [], 1],
        ["canary_suspects", ["too", "many"], 1],
        ["canary_suspects", ["lost-write"], 2],
    ]
    store.views.save("prod", "canary-0", time.time_ns(), view(more=strange))
    samples = scrape(client)
    assert total(samples, "canary_suspects") == 2
    endings = ("_bucket", "_count", "_sum", "_created")
    for name, _ in samples:
        if name.startswith("canary_"):
            assert name in METRICS or name.endswith(endings)


def test_a_view_that_cannot_be_read_hides_no_other(client: Client, store: Store) -> None:
    store.views.save("other", "canary-9", time.time_ns(), b"{")
    assert total(scrape(client), "canary_probes_acked_total", cluster="prod") == 300


def test_openmetrics_is_spoken_to_those_who_ask_for_it(client: Client) -> None:
    answer = client.ask("GET", "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


def test_metrics_answer_while_the_package_is_replaced_on_the_disk(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {name: value for name, value in scrape(client).items() if name[0] == "canary_build_info"}

    def gone(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", gone)
    assert {name: value for name, value in scrape(client).items() if name[0] == "canary_build_info"} == before != {}
