"""The files made from the rules: Prometheus' rules file, a runbook for each alert, and the API's copy of them."""

import json

import yaml

from dashboards.rules import GROUPS, TITLES, Rule

_SERVED = ("severity", "hold", "meaning", "advice", "expression", "kind")


def rules_yaml() -> str:
    """Return the rules as a file for Prometheus."""
    content = {
        "groups": [{"name": name, "rules": [rule.as_yaml() for rule in rules]} for name, rules in GROUPS.items()]
    }
    head = "# Made by `python -m dashboards` from the catalogues; do not edit by hand.\n"
    return head + yaml.safe_dump(content, sort_keys=False, width=4096, allow_unicode=True)


def runbook(rule: Rule) -> str:
    """Return the page of a rule, in Markdown."""
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(rule.advice, 1))
    return (
        f"# {rule.name}\n\n{rule.meaning}\n\n"
        f"Severity: **{rule.severity}**. Fires after: {rule.hold}.\n\n"
        f"## What to do\n\n{steps}\n\n## The rule\n\n```promql\n{rule.expression}\n```\n"
    )


def runbooks_json() -> str:
    """Return the content of the API's pages under /runbooks, by the alert's name."""
    served = {
        rule.name: {"group": TITLES[group], **{field: getattr(rule, field) for field in _SERVED}}
        for group, rules in GROUPS.items()
        for rule in rules
    }
    return json.dumps(served, indent=1) + "\n"


def runbooks_index() -> str:
    """Return the page that lists every runbook, in Markdown."""
    parts = [
        "# Runbooks\n\nOne page for each alert; made from the catalogue and the rules by `python -m dashboards`.\n"
    ]
    for group, rules in GROUPS.items():
        rows = [f"| [{rule.name}]({rule.name}.md) | {rule.severity} | {rule.meaning} |" for rule in rules]
        parts += [f"## {TITLES[group]}\n", "| alert | severity | means |\n|---|---|---|", *rows, ""]
    return "\n".join(parts)
