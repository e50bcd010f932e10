"""The pages in a real browser: light and dark, narrow and wide, by keyboard alone, and what axe-core has to say."""

from __future__ import annotations

import os
import threading
import time
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from api import create_app
from api.server import ApiServer
from canary.anomalies.topology_change import TopologyChange
from storage.store import Store
from tests.api.serving import ProbeLogFake, lost, settings, view
from tests.support.pages import LOOKS, SCHEMES, SIZES, opened, overflow, serious

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

pytestmark = pytest.mark.e2e

SECOND = 10**9


@pytest.fixture(scope="module", params=["whole", "broken", "empty"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str]]]:
    """A served canary, and the addresses of its pages."""
    directory = tmp_path_factory.mktemp("site")
    with Store.connect(f"sqlite:///{directory}/store.db", timeout=5) as store:
        store.upgrade()
        pages = ["/", "/docs"]
        now = time.time_ns()
        if request.param != "empty":
            store.topology.record("prod", _timeline(now))
        if request.param == "broken":
            store.violations.record("prod", [lost(n, at_ns=now - n * SECOND) for n in range(8)])
            incident, found = store.incidents.page().items[0], store.violations.page().items[0]
            pages += [f"/incidents/{incident.id}", f"/violations/{found.id}"]
            store.reconciliations.request("prod", "schedule", now)
            store.drills.begin("prod", "duplicate", "drill", now, now + 900 * SECOND, "ann")
            pages += ["/clusters/prod", "/audit", "/reconciliations", "/drills"]
        pages.append("/incidents")
        app = create_app(settings("prod"), store, ProbeLogFake())
        ended = threading.Event()
        runner = threading.Thread(target=_report, args=(store, ended))
        if request.param != "empty":
            runner.start()
        with ApiServer(app, "127.0.0.1", 0) as server:
            yield server.address, pages
        ended.set()
        if request.param != "empty":
            runner.join()


def _report(store: Store, ended: threading.Event) -> None:
    """Store a view each second, as a runner that lives."""
    audit = _audit(time.time_ns())
    while True:
        store.views.save("prod", "canary-0", time.time_ns(), view(audit=audit))
        if ended.wait(1):
            return


def _audit(now: int) -> dict[str, Any]:
    finding = {"check": "min-isr", "severity": "critical", "where": "orders", "found": "1", "why": "w"}
    return {"findings": [finding], "notes": [], "at_ns": now}


def _timeline(now: int) -> list[TopologyChange]:
    topic = "durability-canary"
    return [
        TopologyChange(now - 90 * SECOND, "partition", topic, 1, leader=1, replicas="1,2,3", isr="1,2,3"),
        TopologyChange(now - 60 * SECOND, "partition", "orders", 4, leader=2, replicas="1,2,3", isr="2,3"),
        TopologyChange(now - 60 * SECOND, "broker", "", 1),
        TopologyChange(now - 60 * SECOND, "partition", topic, 1, leader=2, replicas="1,2,3", isr="2,3"),
        TopologyChange(now - 20 * SECOND, "broker", "", 1, detail="a:9092"),
    ]


def test_no_page_has_a_serious_finding_or_trouble_in_its_console(
    request: pytest.FixtureRequest, browser: Browser, site: tuple[str, list[str]], axe: str, *, long: bool
) -> None:
    address, pages = site
    shots = os.environ.get("CANARY_SCREENSHOTS")
    for size, scheme in product(SIZES, SCHEMES) if long or shots else LOOKS:
        page, said = opened(browser, f"{address}{pages[0]}?refresh=off", size, scheme)
        for path in pages:
            where = f"{path}, {size} and {scheme}"
            if path != pages[0]:
                page.goto(f"{address}{path}", wait_until="load")
            assert said == [], where
            assert serious(page, axe) == [], where
            assert overflow(page) <= 0, f"scrolls sideways: {where}"
            if shots:
                what, _, one = path.strip("/").partition("/")
                named = what.removesuffix("s") if one else what or "status"
                state = request.node.callspec.params["site"]
                page.screenshot(path=f"{shots}/{state}-{named}-{size}-{scheme}.png", full_page=True)
        page.context.close()


@pytest.mark.parametrize("site", ["broken"], indirect=True)
def test_the_pictures_are_drawn_and_the_policy_holds(browser: Browser, site: tuple[str, list[str]]) -> None:
    address, pages = site
    page, said = opened(browser, f"{address}{pages[2]}", "wide", "light")
    page.locator(".picture .scatterlayer .trace").nth(1).wait_for(state="attached")  # the second of them
    assert said == [], "\n".join(said)
    page.context.close()


@pytest.mark.parametrize("site", ["broken"], indirect=True)
def test_everything_can_be_read_without_scripts_and_done_with_the_keyboard(
    browser: Browser, site: tuple[str, list[str]]
) -> None:
    address, pages = site
    page, _ = opened(browser, f"{address}{pages[2]}", "wide", "light", scripts=False)
    assert page.get_by_role("heading", name="Timeline").is_visible()
    assert page.get_by_text("is led by broker 2").first.is_visible()
    page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == "Skip to content"
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.locator(":focus").get_attribute("id") == "ack-note":
            break
    page.keyboard.type("I am on it")
    page.keyboard.press("Tab")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    page.get_by_text("acknowledged").first.wait_for()
    page.get_by_text("I am on it").wait_for()
    page.context.close()
