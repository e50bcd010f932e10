"""The runbooks are part of the API: whatever says that something is wrong leads there, and nothing leads elsewhere."""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING

import pytest

from canary.anomalies.catalogue import CATALOGUE
from dashboards.rules import GROUPS
from tests.api.serving import lost

if TYPE_CHECKING:
    from dashboards.rules import Rule
    from storage.store import Store
    from tests.api.serving import Client

RULES = [rule for rules in GROUPS.values() for rule in rules]


def plain(html: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", html)))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_alert_has_its_runbook_here(client: Client, rule: Rule) -> None:
    answer = client.get(f"/runbooks/{rule.name}")
    assert answer.status_code == 200
    words = plain(answer.text)
    for part in (rule.name, rule.meaning, rule.expression, *rule.advice):
        assert " ".join(part.split()) in words
    assert f'href="/runbooks/{rule.name}"' in client.get("/runbooks").text


@pytest.mark.parametrize("kind", [*CATALOGUE, "alert-test"])
def test_every_kind_of_violation_has_its_runbook_with_an_alert_or_without(client: Client, kind: str) -> None:
    words = plain(client.get(f"/runbooks/{kind}").text)
    if kind in CATALOGUE:
        assert CATALOGUE[kind].title in words
        assert CATALOGUE[kind].do_first in words
    assert ("No alert fires for this kind" in words) == (not any(rule.kind == kind for rule in RULES))


def test_pages_and_violations_lead_to_the_runbook(client: Client, store: Store) -> None:
    store.violations.record("prod", [lost(1)])
    (row,) = store.violations.page().items
    for page in ("/", f"/violations/{row.id}", f"/incidents/{row.incident_id}"):
        assert 'href="/runbooks/lost-write"' in client.get(page).text, page
    assert client.get(f"/api/v1/violations/{row.id}").json()["runbook"] == "/runbooks/lost-write"


def test_a_runbook_needs_nothing_from_elsewhere(client: Client) -> None:
    for page in ("/runbooks", "/runbooks/CanaryLostWrite"):
        links = re.findall(r'(?:href|src)="([^"]*)"', client.get(page).text)
        assert links
        assert not [link for link in links if not link.startswith(("/", "#"))]


def test_a_runbook_that_is_not_there_is_said_so(client: Client) -> None:
    answer = client.get("/runbooks/<script>")
    assert answer.status_code == 404
    assert "<script" not in answer.text
