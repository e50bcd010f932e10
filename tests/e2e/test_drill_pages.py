"""The report of a drill in a real browser, and the canary's own pages while the drill lasts.

With CANARY_SCREENSHOTS=DIR the pictures of docs/drills.md are made here.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from canary.drills.report.page import page as report
from tests.drills.playing import found, played, result
from tests.support.http_client import HTTP
from tests.support.pages import LOOKS, SCHEMES, opened, overflow, serious
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

pytestmark = pytest.mark.e2e

DRILL = "fsync-loss"


def test_a_report_has_no_serious_finding_and_needs_no_script(browser: Browser, axe: str, tmp_path: Path) -> None:
    gone = range(3, 40)
    bad = result(played(found("lost-write", gone), found("truncation", [3]), found("phantom", [50]), gone=gone))
    file = tmp_path / "report.html"
    file.write_text(report([bad, result(None, impossible="there is no java")]), encoding="utf-8")
    for size, scheme in LOOKS:
        page, said = opened(browser, file.as_uri(), size, scheme)
        assert said == []
        assert serious(page, axe) == []
        assert overflow(page) <= 0
        page.context.close()
        page, _ = opened(browser, file.as_uri(), size, scheme, scripts=False)
        assert page.get_by_role("heading", name="Timeline").is_visible()
        page.context.close()


@pytest.mark.kafka
@pytest.mark.quick
@pytest.mark.timeout(1200)
def test_while_a_drill_lasts_the_canarys_own_pages_tell_of_it(browser: Browser, tmp_path: Path, *, long: bool) -> None:
    """In the long form after its control. Status 0 says that all was said, and nothing else: the drill passes."""
    file, told = tmp_path / "report.html", tmp_path / "told"
    command = [sys.executable, "-m", "canary.cli", "drill", "run", DRILL, "--report", str(file)]
    command += [] if long else ["--no-control"]
    with told.open("w") as log, subprocess.Popen(command, stderr=log, stdout=log) as drill:
        try:
            address = until(lambda: _said(told, "the canary probes: (\\S+)"), 120, "it runs")
            until(lambda: _said(told, "(the ISR of probes-0 is .1, 2, 3.)"), 180, "its last step has been taken")
            drill.send_signal(signal.SIGSTOP)  # brokers and canary go on, and it ends no sooner than it is to
            lead = until(lambda: _lost(address), 60, "the loss is on the canary's pages")
            _shown(browser, f"{address}/?refresh=off", "status", "No")
            incident = f"{address}/incidents/{lead['id']}"
            _shown(browser, incident, "first-screen", "What now", whole=False)
            _shown(browser, incident, "incident", "Timeline")
            _shown(browser, f"{address}/violations/{_first(address, lead['id'])}", "violation", "Evidence")
            _shown(browser, f"{address}/clusters/drill", "cluster", "Partitions")
            drill.send_signal(signal.SIGCONT)
            assert drill.wait(300) == 0, told.read_text()
        finally:
            drill.send_signal(signal.SIGCONT)
            drill.terminate()
    _shown(browser, file.as_uri(), DRILL, "acknowledged records are gone")


def _said(told: Path, pattern: str) -> str | None:
    """Return the first group of a line that a drill said of its bad half; its lines of the control say so first."""
    line = re.search(rf"^  {pattern}", told.read_text(), re.MULTILINE)
    return line[1] if line else None


def _lost(address: str) -> dict[str, Any] | None:
    answer = HTTP.get(f"{address}/api/v1/incidents")
    items = answer.json()["items"] if answer.is_success else ()  # 503: its store is too busy just now
    return next((one for one in items if one["kind"] in {"lost-write", "truncation"}), None)


def _first(address: str, incident: str) -> str:
    """Return the id of the first violation of an incident, which its briefing has as a range with commands."""
    detail = until(lambda: HTTP.get(f"{address}/api/v1/incidents/{incident}"), 60, "it answers").json()
    loss = detail["briefing"]["losses"][0]
    command = next(one["command"] for one in detail["briefing"]["steps"] if "kafka-dump-log.sh" in one["command"])
    assert f"$3 >= {loss['first_offset']} && $3 <= {loss['last_offset']}" in command
    return str(loss["violation_id"])


def _shown(browser: Browser, address: str, name: str, words: str, *, whole: bool = True) -> None:
    shots = os.environ.get("CANARY_SCREENSHOTS")
    for scheme in SCHEMES:
        page, _ = opened(browser, address, "wide", scheme)
        page.get_by_text(words).first.wait_for()  # a page that refreshes itself may just be doing so
        if shots:
            page.wait_for_timeout(500)  # pictures are drawn
            page.screenshot(path=f"{shots}/drill-{name}-{scheme}.png", full_page=whole)
        page.context.close()
