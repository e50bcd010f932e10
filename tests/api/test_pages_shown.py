from __future__ import annotations

import html
import re
import time
from typing import TYPE_CHECKING

from api import create_app
from api.knowledge.trends import POINTS, Trend, Trends
from api.knowledge.views import read_views
from api.pages.sparklines import lines
from canary.anomalies.catalogue import CATALOGUE
from storage.store import StoreError
from storage.store.values import View
from tests.api.serving import BIG, NOW_NS, BrokenStore, Client, lost, partition, settings, view

if TYPE_CHECKING:
    from storage.store import Store


def refuse() -> None:
    raise StoreError("away")


def text(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def test_the_page_answers_the_question_first(client: Client) -> None:
    answer = client.get("/")
    assert answer.status_code == 200
    words = text(answer.text)
    assert "Is my data safe right now? Yes. prod has kept every write that it acknowledged." in words
    assert "0 lost in 300 acknowledged probes" in words
    assert "with 95&nbsp;% confidence the loss rate is below 0.994 %" in words
    assert "The cluster is well prod 300 acknowledged, loss rate below 0.994 %" in words
    assert "<dt>Read back</dt><dd>300</dd>" in answer.text, "two consumers have read each probe: it counts once"


def test_a_loss_is_the_first_thing_said_with_what_to_do(client: Client, store: Store) -> None:
    store.violations.record("prod", [lost(5)])
    words = text(client.get("/").text)
    assert "Is my data safe right now? No. prod has lost 1 acknowledged write." in words
    assert f"First: {CATALOGUE['lost-write'].do_first[:40]}" in words
    assert f'href="/incidents/{store.incidents.page().items[0].id}"' in client.get("/").text


def test_many_like_violations_repeat_the_advice_once(client: Client, store: Store) -> None:
    store.violations.record("prod", [lost(n) for n in range(0, 60, 2)])
    page = client.get("/").text
    assert page.count("First:") == 1
    assert page.count('href="/incidents/') == 20
    assert "All open violations" in page
    assert "the largest 20 of 30 ranges (30 writes)" in page


def test_neighbouring_losses_are_one_line_and_a_line_never_says_too_little(client: Client, store: Store) -> None:
    store.violations.record("prod", [lost(n, at_ns=NOW_NS + n) for n in range(1500)])
    page = client.get("/").text
    assert "1,500 writes, offsets 1,000 to 2,499" in page
    assert "All open violations" not in page


def test_a_list_of_open_violations_says_of_how_many(client: Client, store: Store) -> None:
    waits = [lost(n, kind="stalled", severity="warning", at_ns=NOW_NS + n) for n in range(0, 800, 2)]
    store.violations.record("prod", [*waits, lost(5)])
    said = text(client.get("/").text)
    assert "prod · the newest 19 of 400 violations" in said
    assert "Probe 798 was" in said
    assert "All open violations : 401" in said


def test_the_worst_cluster_comes_first_and_only_it_has_a_table(store: Store) -> None:
    client = Client(create_app(settings("a", "b", "c", "d", shadow=["b"]), store))
    now = time.time_ns()
    short = [partition(0), partition(1, isr=(1, 2)), partition(2)]
    for name in "abd":
        store.views.save(name, f"{name}-0", now, view())
    under = [["canary_partition_under_min_isr", ["durability-canary", "1"], 1]]
    store.views.save("c", "c-0", now, view(partitions=short, more=under))
    store.violations.record("d", [lost(1)])
    store.maintenance.plan("c", now - 10**9, now + 3600 * 10**9, "new disks", "ann")
    page = client.get("/").text
    places = [page.index(f'href="/clusters/{name}"') for name in ("d", "c", "a", "b")]
    assert places == sorted(places)
    (rows,) = re.findall(r"<tbody>(.*?)</tbody>", page, re.DOTALL)
    assert re.findall(r'<th scope="row">([^<]+)', rows) == ["durability-canary-1"], "of c alone, and what is short"
    words = text(page)
    assert "b shadow: no alerts" in words
    assert "Planned now, until" in words
    assert "new disks (ann)" in words
    assert "Clusters that are well a " in words


def test_a_cluster_has_a_page_of_its_own_with_all_its_partitions(client: Client, store: Store) -> None:
    store.violations.record("prod", [lost(5)])
    page = client.get("/clusters/prod")
    words = text(page.text)
    assert "No. prod has lost 1 acknowledged write." in words
    assert all(f"durability-canary-{number}" in words for number in range(3))
    assert f'href="/incidents/{store.incidents.page().items[0].id}"' in page.text
    assert "MkU3OEVBNTcwNTJENDM2Qk" in words
    missing = client.get("/clusters/nowhere")
    assert (missing.status_code, "There is no a cluster called nowhere" in missing.text) == (404, False)
    assert "There is no cluster called nowhere" in text(missing.text)


def test_small_pictures_have_a_gap_where_nothing_is_known() -> None:
    trend = Trend((1800.0, 1790.0, 1780.0, 20.0, 10.0, 0.0), (0, None, 2, 2, None, 4))
    assert lines(trend) == ["-1.0,30.0 0.0,30.0", "0.8,16.0 1.8,16.0", "157.2,16.0 158.2,16.0", "159.0,2.0 160.0,2.0"]
    assert lines(Trend((), ())) == lines(Trend((1.0,), (None,))) == []
    assert lines(Trend((20.0, 10.0), (0, 0))) == ["158.2,30.0 159.1,30.0"]


def test_points_are_kept_of_what_runners_say_and_not_of_what_a_silent_one_said() -> None:
    trends = Trends()
    now = time.time_ns()

    def seen(at_s: float, acked: int, age_s: float = 0.0) -> None:
        row = View("prod", "r", now - round(age_s * 1e9), view(acked=acked))
        trends.note(read_views([row], now), at_s)

    seen(0.0, 100)
    seen(5.0, 900)  # too soon
    seen(10.0, 200)
    seen(20.0, 300, age_s=60.0)
    assert trends.unseen("prod", 20.0).values == (0, 0, None)
    assert trends.unseen("prod", 20.0).ages == (20.0, 10.0, 0.0)
    assert trends.latency("prod", 20.0).values == (0.01, 0.01)
    assert trends.latency("nowhere", 0.0) == Trend((), ())
    for second in range(30, 10_000, 10):
        seen(float(second), 300)
    assert len(trends.unseen("prod", 0.0).values) == POINTS
    assert trends.latency("prod", 0.0).now is None, "nothing was written meanwhile"


def test_without_the_store_nobody_can_say() -> None:
    client = Client(create_app(settings("prod"), BrokenStore(refuse)))
    answer = client.get("/")
    assert answer.status_code == 503
    assert "Unknown." in text(answer.text)
    assert "http-equiv" in answer.text


def test_a_violation_has_its_page_with_evidence(client: Client, store: Store) -> None:
    store.violations.record("prod", [lost(5)])
    words = text(client.get(f"/violations/{lost(5).key('prod')}").text)
    assert CATALOGUE["lost-write"].implies.replace("'", "&#39;")[:60] in words
    assert "What to do first" in words
    assert "acked offset 1005" in words
    missing = client.get("/violations/none")
    assert missing.status_code == 404
    assert "There is no" in missing.text


def test_a_range_is_shown_with_both_ends_and_its_records(client: Client, store: Store) -> None:
    found = lost(7, count=1000)
    store.violations.record("prod", [found])
    place = "1,007 to 2,006 (1,000 records)"
    assert "1,000 writes, offsets 1,007 to 2,006" in client.get("/").text
    page = client.get(f"/violations/{found.key('prod')}").text
    assert place in page
    assert f"{BIG} / 3 / 1 / 1006" in page
    incident = client.get(f"/incidents/{store.incidents.page().items[0].id}").text
    assert f"lost-write at {place}" in incident
    assert "The log around offset 1,007 and offset 2,006" in incident


def test_what_is_shown_is_escaped(client: Client, store: Store) -> None:
    store.views.save("<script>alert(1)</script>", "r", 1, view())
    assert "<script" not in client.get("/").text
    assert "<script" not in client.get("/violations/<script>alert(1)").text


def test_pages_need_nothing_that_the_policy_forbids(client: Client, store: Store) -> None:
    store.violations.record("prod", [lost(5)])
    for path in ("/", "/docs", f"/violations/{lost(5).key('prod')}"):
        answer = client.get(path)
        assert answer.status_code == 200
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert not re.search(r"<script|\sstyle=|\son\w+=|<style", answer.text)
        assert not re.search(r'(?:src|href)="(?:https?:)?//', answer.text)
        for asset in set(re.findall(r'(?:src|href)="(/static/[^"]+)"', answer.text)):
            assert client.get(asset).status_code == 200


def test_renewal_can_be_stopped(client: Client) -> None:
    assert '<meta http-equiv="refresh" content="5">' in client.get("/").text
    assert "http-equiv" not in client.get("/", refresh="off").text


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_colours_have_the_contrast_of_wcag_aa_in_light_and_dark(client: Client) -> None:
    sheet = client.get("/static/canary.css").text
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#\w{6});", block)) for block in re.findall(r":root \{(.*?)\}", sheet, re.DOTALL)
    )
    for theme in (light, dark):
        for ink in ("text", "quiet", "link", "safe", "watch", "unknown", "broken"):
            assert contrast(theme[ink], theme["page"]) >= 4.5, ink
            assert contrast(theme[ink], theme["card"]) >= 4.5, ink
        for level in ("safe", "watch", "unknown", "broken"):
            assert contrast(theme[level], theme[f"{level}-soft"]) >= 4.5, level
            assert contrast(theme["quiet"], theme[f"{level}-soft"]) >= 4.5, level
            assert contrast(theme["on-badge"], theme[level]) >= 4.5, level


def test_the_records_have_pages(client: Client, store: Store) -> None:
    now = time.time_ns()
    for path, words in (("/audit", "nothing is known"), ("/reconciliations", "None"), ("/drills", "is not proven")):
        assert words in text(client.get(path).text)
    finding = {"check": "min-isr", "severity": "critical", "where": "orders", "found": "1", "why": "w", "change": "c"}
    store.views.save("prod", "canary-0", now, view(audit={"findings": [finding], "notes": [], "at_ns": now}))
    assert "min-isr critical orders 1 w c" in text(client.get("/audit", cluster="prod").text)
    made = store.reconciliations.request("prod", "schedule", now)
    assert "waits for a scheduler" in text(client.get("/reconciliations").text)
    store.reconciliations.claim("one", now)
    store.reconciliations.finish(made.id, "one", now, verdicts={"ok": 1234, "lost": 40, "pending": 0})
    assert "ok 1,234, lost 40 " in text(client.get("/reconciliations").text)
    for noted, said in (
        ({"detected_ns": now + 10**9, "paged_ns": now + 40 * 10**9}, "found, and the page came back after 1.0 s"),
        ({"detected_ns": now + 10**9}, "the page did not come back after 1.0 s"),
        ({}, "not found \N{EN DASH}"),
        ({"error": "no broker answers"}, "failed no broker answers"),
    ):
        run = store.drills.begin("prod", "duplicate", "drill", now, now + 900 * 10**9, "ann")
        store.drills.note(run.id, knowable_ns=now, ended_ns=now + 60 * 10**9, **noted)
        assert said in text(client.get("/drills").text)
    for path in ("/audit", "/reconciliations"):
        assert client.get(path, cluster="nowhere").status_code == 404
    assert client.get("/reconciliations", cursor="nonsense").status_code == 422


def test_a_browser_gets_errors_as_pages_and_a_program_as_problem_documents(store: Store) -> None:
    client = Client(create_app(settings("prod"), store))
    locked = Client(create_app(settings("prod", auth={"required": "always"}), store))
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for asked, path, status_code in ((client, "/nowhere", 404), (locked, "/", 401), (client, "/drills?cursor=x", 422)):
        page = asked.ask("GET", path, headers=browser)
        assert (page.status_code, page.headers["content-type"]) == (status_code, "text/html; charset=utf-8")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        for headers in ({}, {"Accept": "application/json"}):
            document = asked.ask("GET", path, headers=headers)
            assert document.headers["content-type"] == "application/problem+json"
            assert document.json()["detail"] in html.unescape(page.text)
    assert "Basic" in locked.ask("GET", "/", headers=browser).headers["www-authenticate"]
    for path in ("/api/v1/violations/none", "/api/v1/nowhere", "/metrics/nowhere"):
        answer = client.ask("GET", path, headers=browser)
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


def test_what_nobody_tells_is_not_zero(store: Store) -> None:
    store.views.save("prod", "canary-0", time.time_ns() - 3600 * 10**9, view())
    words = text(Client(create_app(settings("prod"), store)).get("/").text)
    assert "Unseen now unknown" in words
