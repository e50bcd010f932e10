"""A real browser signs in at a real identity provider (Dex), acts, is made to act by no other site, and signs out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from api import create_app
from api.server import ApiServer
from canary.lab.state import free_ports
from storage.store import Store
from tests.api.serving import ProbeLogFake, lost, settings, view
from tests.support.dex import CLIENT, GROUP, OPERATOR, PASSWORD, SECRET, STRANGER, dex
from tests.support.pages import opened, overflow, serious

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.e2e

ELSEWHERE = "http://127.0.0.1:1/page"
"""A page of another origin on the same host: SameSite does not keep cookies from its requests."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[str, Store, str]]:
    """A canary that lets browsers sign in at Dex, its store, and the incident that it shows."""
    (port,) = free_ports(1)
    address = f"http://127.0.0.1:{port}"
    (tmp_path / "secret").write_text(SECRET)
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=5) as store, dex(tmp_path, address) as issuer:
        store.upgrade()
        store.views.save("prod", "canary-0", time.time_ns(), view())
        store.violations.record("prod", [lost(1)])
        oidc = {
            "issuer": issuer,
            "audience": "canary",
            "login": True,
            "client_id": CLIENT,
            "client_secret_file": str(tmp_path / "secret"),
            "scopes": ["email", "groups"],
            "scope_claim": "groups",
            "operate": GROUP,
            "name_claim": "email",
        }
        told = settings("prod", url=address, auth={"required": "always", "oidc": oidc})
        with ApiServer(create_app(told, store, ProbeLogFake()), "127.0.0.1", port) as server:
            yield server.address, store, store.incidents.page().items[0].id


def sign_in(page: Page, person: str) -> None:
    page.fill("input[name=login]", person)
    page.fill("input[name=password]", PASSWORD)
    page.click("button[type=submit]")


def test_a_person_signs_in_acts_and_signs_out(browser: Browser, site: tuple[str, Store, str]) -> None:
    address, store, incident = site
    page, said = opened(browser, f"{address}/incidents/{incident}", "wide", "light", scripts=False)
    assert "/dex/" in page.url
    sign_in(page, OPERATOR)
    page.wait_for_url(f"{address}/incidents/{incident}")
    page.get_by_role("button", name=f"Sign out {OPERATOR}").wait_for()
    (cookie,) = page.context.cookies(address)
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == ("canary-session", True, "Lax")
    with page.expect_navigation():
        page.get_by_role("button", name="Acknowledge").click()
    assert store.incidents.page().items[0].state == "acknowledged"
    form = f'<form method="post" action="{address}/incidents/{incident}/resolve"><button name="reason" value="lost">x'
    page.route(ELSEWHERE, lambda route: route.fulfill(content_type="text/html", body=form))
    page.goto(ELSEWHERE)
    with page.expect_response(f"{address}/incidents/{incident}/resolve") as sent:
        page.click("button")
    assert "canary-session" in sent.value.request.all_headers()["cookie"], (
        "the browser sends it, and that is not enough"
    )
    assert sent.value.status == 403
    assert store.incidents.page().items[0].state == "acknowledged"
    page.goto(f"{address}/")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_text("You have signed out").wait_for()
    assert page.context.cookies(address) == []
    page.goto(f"{address}/")
    assert "/dex/" in page.url
    done = [(action.actor, action.action) for action in store.actions.page().items]
    assert done == [
        (OPERATOR, "sign-out"),
        ("anonymous", "refused"),
        (OPERATOR, "acknowledge"),
        (OPERATOR, "sign-in"),
    ]
    assert [words for words in said if "403" not in words] == []
    page.context.close()


def test_the_button_to_sign_out_fits_and_can_be_used_by_everybody(
    browser: Browser,
    axe: str,
    site: tuple[str, Store, str],
) -> None:
    page, _ = opened(browser, f"{site[0]}/?refresh=off", "narrow", "dark")
    sign_in(page, OPERATOR)
    page.get_by_role("button", name="Sign out").wait_for()
    page.wait_for_load_state()  # before its style is there a page has other sizes
    assert overflow(page) <= 0
    assert serious(page, axe) == []
    page.context.close()


def test_a_person_without_a_right_is_told_so(browser: Browser, site: tuple[str, Store, str]) -> None:
    address, store, _ = site
    page, _ = opened(browser, f"{address}/", "wide", "light")
    sign_in(page, STRANGER)
    page.get_by_text("Your account has no right to this canary").wait_for()
    assert page.context.cookies(address) == [] or all("session" not in one["name"] for one in page.context.cookies())
    assert store.actions.page().items[0].action == "refused"
    page.context.close()
