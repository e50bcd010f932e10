"""The files made from the rules: Prometheus' rules file, a runbook for each alert, and the API's copy of them."""

import json
from typing import Any

import yaml

from api.pages.placeholders import PLACEHOLDERS
from canary.anomalies.catalogue import CATALOGUE
from dashboards.rules import GROUPS, RECORDED_EVERY, RECORDINGS, TITLES, Rule
from dashboards.runbooks import runbook_of
from dashboards.runbooks.runbook import PREPARE, blanks

_SERVED = ("severity", "hold", "meaning", "advice", "expression", "kind")


def rules_yaml() -> str:
    """Return the rules as a file for Prometheus."""
    groups = []
    for name, alerts in GROUPS.items():
        recordings = RECORDINGS.get(name, ())
        every = {"interval": RECORDED_EVERY} if recordings else {}
        rules = [*(one.as_yaml() for one in recordings), *(rule.as_yaml() for rule in alerts)]
        groups.append({"name": name, **every, "rules": rules})
    content = {"groups": groups}
    head = "# Made by `python -m dashboards` from the catalogues; do not edit by hand.\n"
    return head + yaml.safe_dump(content, sort_keys=False, width=4096, allow_unicode=True)


def runbook(rule: Rule) -> str:
    """Return the page of a rule, in Markdown."""
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(rule.advice, 1))
    sections = "\n".join(_section(one) for one in runbook_of(rule.name, rule.kind).sections(rule.name, rule.kind))
    return (
        f"# {rule.name}\n\n{rule.meaning}\n\n"
        f"Severity: **{rule.severity}**. Fires after: {rule.hold}. "
        "What the commands need: [Commands](index.md#commands).\n\n"
        f"## What to do first\n\n{steps}\n\n{sections}\n## The rule\n\n```promql\n{rule.expression}\n```\n"
    )


def _section(section: dict[str, Any]) -> str:
    return f"## {section['title']}\n\n" + "".join(
        f"{step['text']}\n\n" + "".join(_command(command) for command in step["commands"]) for step in section["steps"]
    ).removesuffix("\n")


def _command(command: dict[str, Any]) -> str:
    language = "promql" if command["where"] == "prometheus" else "sh"
    tried = " ✓" if command["runnable"] else ""
    return f"*{command['place']}{tried}*\n\n```{language}\n{command['text']}\n```\n\n"


def runbooks_json() -> str:
    """Return the content of the API's pages under /runbooks: of each alert, and of each kind of violation."""
    alerts = {
        rule.name: {
            "group": TITLES[group],
            **{field: getattr(rule, field) for field in _SERVED},
            **_served(rule.name, rule.kind),
        }
        for group, rules in GROUPS.items()
        for rule in rules
    }
    kinds = {kind: _served("", kind) for kind in CATALOGUE}
    return json.dumps({"prepare": PREPARE, "alerts": alerts, "kinds": kinds}, indent=1, ensure_ascii=False) + "\n"


def _served(alert: str, kind: str) -> dict[str, Any]:
    sections = runbook_of(alert, kind).sections(alert, kind)
    return {"blanks": blanks(sections), "sections": sections}


def runbooks_index() -> str:
    """Return the page that lists every runbook, in Markdown."""
    parts = [
        (
            "# Runbooks\n\nOne page for each alert; made from the catalogue, the rules and `dashboards/runbooks` by "
            "`python -m dashboards`. The API serves the same under `/runbooks`, without the internet, for every kind "
            "of violation as well, and fills the commands in.\n"
        )
    ]
    for group, rules in GROUPS.items():
        rows = [f"| [{rule.name}]({rule.name}.md) | {rule.severity} | {rule.meaning} |" for rule in rules]
        parts += [f"## {TITLES[group]}\n", "| alert | severity | means |\n|---|---|---|", *rows, ""]
    parts += ["## Commands\n", *(f"* {line}" for line in PREPARE), "", "| in braces | means |", "|---|---|"]
    parts += [f"| `{{{name}}}` | {one.meaning} |" for name, one in PLACEHOLDERS.items()]
    return "\n".join(parts) + "\n"
