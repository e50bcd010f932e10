from __future__ import annotations

import re
from typing import TYPE_CHECKING

from api import create_app
from canary.anomalies.catalogue import CATALOGUE
from storage.store import StoreError
from tests.api.serving import BIG, BrokenStore, Client, lost, settings, view

if TYPE_CHECKING:
    from storage.store import Store


def refuse() -> None:
    raise StoreError("away")


def text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def test_the_page_answers_the_question_first(client: Client) -> None:
    answer = client.get("/")
    assert answer.status_code == 200
    words = text(answer.text)
    assert "Is my data safe right now? Yes. prod has kept every write that it acknowledged." in words
    assert "0 lost in 300 acknowledged probes" in words
    assert "with 95&nbsp;% confidence the loss rate is below 0.994 %" in words
    assert "durability-canary-2" in words


def test_a_loss_is_the_first_thing_said_with_what_to_do(client: Client, store: Store) -> None:
    store.violations.record("prod", [lost(5)])
    words = text(client.get("/").text)
    assert "Is my data safe right now? No. prod has lost 1 acknowledged write." in words
    assert f"First: {CATALOGUE['lost-write'].do_first[:40]}" in words
    assert f"/violations/{lost(5).key('prod')}" in client.get("/").text


def test_many_like_violations_repeat_the_advice_once(client: Client, store: Store) -> None:
    store.violations.record("prod", [lost(n) for n in range(30)])
    page = client.get("/").text
    assert page.count("First:") == 1
    assert page.count('href="/violations/') == 20
    assert "All open violations" in page


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
    assert f"durability-canary-1 at {place}" in client.get("/").text
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
