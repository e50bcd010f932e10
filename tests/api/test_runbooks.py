"""The runbooks are part of the API: whatever says that something is wrong leads there, and nothing leads elsewhere."""

from __future__ import annotations

import re
import shlex
from html import unescape
from typing import TYPE_CHECKING

import pytest

from api.pages.placeholders import PLACEHOLDERS, fitting
from canary.anomalies.catalogue import CATALOGUE
from dashboards.rules import GROUPS
from dashboards.runbooks.runbook import SECTIONS
from tests.api.serving import lost

if TYPE_CHECKING:
    from dashboards.rules import Rule
    from storage.store import Store
    from tests.api.serving import Client

RULES = [rule for rules in GROUPS.values() for rule in rules]


def plain(html: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", html)))


@pytest.mark.dear("asks for each page")
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
        assert all(f" {heading} " in words for heading in SECTIONS.values())
    assert ("No alert fires for this kind" in words) == (not any(rule.kind == kind for rule in RULES))


def test_pages_and_violations_lead_to_the_runbook(client: Client, store: Store) -> None:
    store.violations.record("prod", [lost(1)])
    (row,) = store.violations.page().items
    assert 'href="/runbooks/lost-write"' in client.get("/").text
    place = f"?cluster=prod&amp;topic={row.topic}&amp;partition={row.partition}&amp;offset={row.offset}&amp;"
    for page in (f"/violations/{row.id}", f"/incidents/{row.incident_id}"):
        (link,) = re.findall(r'href="(/runbooks/lost-write[^"]*)"', client.get(page).text)
        assert link == f"/runbooks/lost-write{place}violation={row.id}&amp;incident={row.incident_id}", page
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


def commands(html: str) -> list[str]:
    return [unescape(one) for one in re.findall(r'<pre[^>]*aria-label="Command"[^>]*>(.*?)</pre>', html, re.DOTALL)]


def test_what_an_alert_knows_is_filled_into_the_commands(client: Client) -> None:
    plainly = commands(client.get("/runbooks/CanaryLostWrite").text)
    page = client.ask("GET", "/runbooks/CanaryLostWrite?cluster=prod&topic=orders&partition=3&broker=2").text
    filled = commands(page)
    assert len(filled) == len(plainly) > 20
    assert any("--topic {topic} --partition {partition}" in one for one in plainly)
    assert any("--topic orders --partition 3 --offset {offset}" in one for one in filled)
    assert 'canary_violations_open{cluster="prod",kind="lost-write"} > 0' in filled
    assert not any("{topic}" in one or "{cluster}" in one for one in filled)
    assert re.search('name="topic" value="orders"', page)
    assert 'href="/api/v1/violations?cluster=prod&amp;kind=lost-write&amp;state=open"' in page


@pytest.mark.parametrize("harm", ["x;reboot", "$(id)", "<script>alert(1)</script>", "-x", 'a"b', "a\nb", "a b", ""])
def test_a_link_cannot_put_anything_else_into_a_command(client: Client, harm: str) -> None:
    url = "/runbooks/CanaryLostWrite"
    answer = client.get(url, **dict.fromkeys(PLACEHOLDERS, harm), bootstrap="evil:9092")
    assert commands(answer.text) == commands(client.get(url).text)
    assert "<script>" not in answer.text
    assert "evil" not in answer.text


def test_each_blank_has_a_field(client: Client) -> None:
    for name in (*(rule.name for rule in RULES), *CATALOGUE):
        page = client.get(f"/runbooks/{name}").text
        blanks = {one for text in commands(page) for one in re.findall(r"(?<!\$)\{([a-z_]+)\}", text)}
        assert set(re.findall(r'<input name="(\w+)"', page)) == blanks <= set(PLACEHOLDERS), name


def test_what_runbooks_ask_of_the_api_is_answered(client: Client, store: Store) -> None:
    store.violations.record("prod", [lost(1)])
    (row,) = store.violations.page().items
    known = {"cluster": "prod", "topic": row.topic, "partition": "1", "offset": "1001", "violation": row.id}
    values = fitting(known | {"incident": str(row.incident_id)})
    asked = set()
    for name in (*(rule.name for rule in RULES), *CATALOGUE):
        for command in commands(client.get(f"/runbooks/{name}", **values).text):
            if command.startswith("curl "):
                asked.add(command)
    assert len(asked) > 20
    for command in asked:
        words = shlex.split(command)
        path = words[-1].removeprefix("$CANARY")
        body = words[words.index("-d") + 1] if "-d" in words else None
        sent = {} if body is None else {"content": body, "headers": {"Content-Type": "application/json"}}
        answer = client.ask("GET" if body is None else "POST", path, **sent)
        assert answer.is_success, f"{command}: {answer.status_code} {answer.text}"
