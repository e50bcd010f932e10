"""Runbooks: every alert and kind has one, it is whole, and what its commands name exists; see also ..._tried."""

from __future__ import annotations

import re
import shlex
import string
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
import yaml

from api.pages.placeholders import BLANK, PLACEHOLDERS, filled, fitting
from canary.anomalies.catalogue import CATALOGUE
from canary.metrics import METRICS
from dashboards.reference.alerts import runbook
from dashboards.rules import GROUPS
from dashboards.runbooks import RUNBOOKS, coverage, lost_data, runbook_of
from dashboards.runbooks.runbook import OWN, SECTIONS, Command
from tests.dashboards.test_rules_fire import promtool
from tests.support.command import canary

if TYPE_CHECKING:
    from pathlib import Path

    from dashboards.rules import Rule

RULES = [rule for rules in GROUPS.values() for rule in rules]
COMMANDS = list(dict.fromkeys(command for book in RUNBOOKS for command in book.commands()))
VALUES = dict.fromkeys(PLACEHOLDERS, "7") | {"topic": "orders", "log_dir": "/data", "keep": "/keep"}


def ready(command: Command) -> str:
    return filled(command.as_json("CanaryLostWrite", "lost-write")["text"], VALUES)


def test_every_alert_and_every_kind_names_its_runbook() -> None:
    named = [name for book in RUNBOOKS for name in (*book.kinds, *book.alerts)]
    assert len(set(named)) == len(named), "two runbooks for one alert or kind"
    wanted = {rule.name for rule in RULES if rule.kind not in CATALOGUE} | set(CATALOGUE)
    assert wanted <= set(named), f"no runbook: add {wanted - set(named)} to `alerts` or `kinds` in dashboards/runbooks"
    assert set(named) <= wanted, f"nothing is called {set(named) - wanted}: see dashboards/runbooks"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_alert_has_all_sections_and_something_to_type(rule: Rule) -> None:
    page = runbook(rule)
    places = [page.index(f"\n## {heading}\n") for heading in SECTIONS.values()]
    assert places == sorted(places)
    real = page[places[1] : places[2]]
    assert "```" in real, "no query and no command that tells whether it is real"
    assert not re.search(r"\{(alert|kind)\}", page)


@pytest.mark.parametrize("left_out", SECTIONS)
def test_a_runbook_without_a_section_is_refused_and_says_where_to_add_it(left_out: str) -> None:
    change: dict[str, Any] = {left_out: ()}
    with pytest.raises(ValueError, match=f"'Acknowledged writes are gone' .*{left_out}.* dashboards/runbooks"):
        replace(lost_data.LOST, **change)


def test_what_comes_later_has_a_cautious_runbook_until_it_names_its_own() -> None:
    assert runbook_of("CanaryDummy", "dummy") is coverage.ANY_FINDING
    assert runbook_of("CanaryDummy", "") is coverage.ANY_ALERT
    assert runbook_of("", "lost-write") is runbook_of("CanaryLostWrite", "lost-write") is lost_data.LOST


def test_whoever_lost_data_is_told_to_touch_nothing_and_to_copy_first() -> None:
    for kind, entry in CATALOGUE.items():
        if entry.shows == "loss" and kind != "early-expiry":  # which no broker's start makes worse
            stop = [step.text for step in runbook_of("", kind).stop]
            assert stop[0].startswith("Do not restart, wipe, reassign"), kind
            assert any(text.startswith("Copy the partition's directory") for text in stop), kind


def test_an_unclean_election_is_only_advised_where_nothing_else_can_help() -> None:
    for book in RUNBOOKS:
        steps = [step for name in SECTIONS for step in getattr(book, name)]
        for step in steps:
            if any("unclean --topic" in command.text for command in step.commands):
                assert step.text.startswith("An unclean election is the lesser harm only if all of this holds")
    assert any("unclean --topic" in command.text for command in COMMANDS)


def test_blanks_are_known_and_are_all_filled() -> None:
    for command in COMMANDS:
        known = {*PLACEHOLDERS, "alert", "kind"}
        assert set(re.findall(r"(?<!\$)\{([a-z_]+)\}", command.text)) <= known, command.text
        assert not BLANK.search(ready(command)), command.text
        assert not OWN.search(ready(command)), command.text
    assert fitting(VALUES) == VALUES
    used = {name for command in COMMANDS for name in BLANK.findall(command.text)}
    assert used == set(PLACEHOLDERS)


def test_what_is_filled_in_means_itself_everywhere() -> None:
    """In a shell, within double quotes, in a URL and in PromQL; and it is no option."""
    for one in PLACEHOLDERS.values():
        for sign in string.printable + "é\N{EM SPACE}":
            if any(re.fullmatch(one.pattern, before + sign, re.ASCII) for before in ("1", "a", "/")):
                assert shlex.quote(sign) == sign
                assert quote(sign, safe="/:@") == sign
        for harmful in ("-x", "$(id)", "a;b", "a b", "a\nb", 'a"b', "a'b", "<b>", "a&b", "", "{topic}", "a\\b", "`a`"):
            assert not re.fullmatch(one.pattern, harmful, re.ASCII), (one, harmful)


def test_what_does_not_fit_is_not_filled_in() -> None:
    values = fitting({"topic": "orders; reboot", "partition": "x", "offset": "42", "unknown": "1"})
    assert values == {"offset": "42"}
    assert filled("--topic {topic} --offset {offset} {unknown}", values) == "--topic {topic} --offset 42 {unknown}"


def test_metrics_in_queries_exist_with_their_labels() -> None:
    queries = [command for command in COMMANDS if command.where == "prometheus"]
    assert len(queries) > 10
    for command in queries:
        for name, selector in re.findall(r"\b(canary_\w+)(?:\{([^}]*)\})?", ready(command)):
            metric = METRICS.get(name) or METRICS.get(name.removesuffix("_bucket"))
            assert metric, f"{name}: {command.text}"
            assert set(re.findall(r"(\w+)=", selector)) <= set(metric.labels), command.text


@pytest.mark.e2e
def test_queries_are_promql(tmp_path: Path) -> None:
    queries = [ready(command) for command in COMMANDS if command.where == "prometheus"]
    rules = [{"record": f"runbook:{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "runbooks", "rules": rules}]}))
    ran = subprocess.run([promtool(), "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{len(queries)} rules found" in ran.stdout


def test_the_canarys_own_commands_exist_with_their_options() -> None:
    calls = {call for command in COMMANDS for call in re.findall(r"\bcanary [a-z][^|&)]*", ready(command))}
    assert len(calls) > 10
    for call in calls:
        words = shlex.split(call)[1:]
        command = [word for word in words[:2] if re.fullmatch("[a-z]+", word)]
        helped = canary(*command, "--help")
        if helped.status:  # the second word is an argument
            helped = canary(*command[:1], "--help")
            assert "COMMAND [ARGS]" not in helped.out, call
        assert helped.status == 0, call
        for option in (word for word in words if word.startswith("--")):
            assert re.search(rf"{option}\b", helped.out), f"{call}: {option}"


def test_every_call_of_kafkas_tools_is_tried_on_the_lab() -> None:
    """By tests/dashboards/test_runbooks_tried.py."""
    assert not [
        command.text for command in COMMANDS if re.search(r"kafka-\S+\.sh", command.text) and not command.runnable
    ]
