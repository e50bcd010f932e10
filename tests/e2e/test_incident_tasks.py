"""Six tasks of a person who is paged, in a real browser of 1280 x 800: each answer is on the first screen.

The times from the page's load to the answer are recorded (junit's properties, and printed), not judged: a busy machine
is slow.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from api import create_app
from api.server import ApiServer
from canary.anomalies.topology_change import TopologyChange
from storage.store import Store
from tests.api.serving import ProbeLogFake, lost, settings, view
from tests.support.pages import PATIENCE_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser

pytestmark = pytest.mark.e2e

S = 10**9
WIDTH, HEIGHT = 1280, 800
TOPIC = "durability-canary"
TASKS = {
    "which writes were lost": ("#which", "40 writes, offsets 1,000 to 1,039, sent "),
    "where": ("#where", f"{TOPIC}-1 in prod, led then by broker 1 (kafka-1:9092)"),
    "since when": ("#since", " UTC, "),
    "why": ("#why", "although it was not in the ISR {1}: an unclean election"),
    "what else": ("#else", "4 other partitions had the same leader and shrunken ISR: orders-4, orders-7, payments-0"),
    "what now": (".steps li:first-child", 'cp -a "${LOG_DIR:?log.dirs of broker 1}"/durability-canary-1'),
}


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the page of a loss by an unclean election, which the probe log does not have yet."""
    now = time.time_ns()
    places = [(TOPIC, 1), ("orders", 4), ("orders", 7), ("payments", 0), ("payments", 3)]
    changes = [TopologyChange(now - 3600 * S, "broker", "", n, detail=f"kafka-{n}:9092 rack {n}") for n in (1, 2, 3)]
    for second, leader, isr, epoch in ((-3600, 1, "1,2,3", 4), (-90, 1, "1", 4), (-60, 2, "2", 5)):
        changes += [
            TopologyChange(now + second * S, "partition", *place, leader, "1,2,3", isr, leader_epoch=epoch)
            for place in places
        ]
    changes.append(TopologyChange(now - 60 * S, "broker", "", 1))
    found = [replace(lost(n, at_ns=now), evidence={"sent_ns": [now - 80 * S + n * S // 10] * 2}) for n in range(40)]
    with Store.connect(f"sqlite:///{tmp_path_factory.mktemp('tasks')}/store.db", timeout=60) as store:
        store.upgrade()
        store.views.save("prod", "canary-0", now + 3600 * S, view())
        store.topology.record("prod", sorted(changes, key=lambda one: one.at_ns))
        store.violations.record("prod", found)
        with ApiServer(create_app(settings("prod"), store, ProbeLogFake()), "127.0.0.1", 0) as server:
            yield f"{server.address}/incidents/{store.incidents.page().items[0].id}"


def test_the_answers_are_on_the_first_screen(
    browser: Browser, incident: str, record_property: Callable[[str, object], None]
) -> None:
    for task, (where, words) in TASKS.items():
        context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT})
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        began = time.monotonic()
        page.goto(incident, wait_until="commit")
        answer = page.locator(where).filter(has_text=words)
        answer.wait_for()
        seconds = time.monotonic() - began
        record_property(f"seconds from load to: {task}", round(seconds, 3))
        print(f"{task}: {seconds:.2f} s")  # noqa: T201  # shown with -s, and when it fails
        page.wait_for_load_state("load")  # nothing that loads later may push it away
        box = answer.bounding_box()
        assert box is not None, task
        assert box["x"] >= 0, task
        assert box["y"] >= 0, task
        assert box["x"] + box["width"] <= WIDTH, task
        assert box["y"] + box["height"] <= HEIGHT, task
        assert page.evaluate("scrollY") == 0, task
        context.close()


def test_a_command_is_copied_with_one_press(browser: Browser, incident: str) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(incident)
    page.get_by_role("button", name="Copy").first.click()
    page.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.locator("[data-command]").first.inner_text()
    assert "cp -a " in copied
    context.close()
