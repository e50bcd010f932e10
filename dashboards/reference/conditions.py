"""The page of conditions: everything that a person may be told of, how severe it is, and which ways it reaches them."""

from canary.anomalies.catalogue import CATALOGUE
from canary.anomalies.policy import CLASSES
from dashboards.rules import GROUPS, TITLES, Rule
from dashboards.rules.anomalies import rings

_HEAD = """# Conditions

Made from the catalogue of anomalies and the rules by `python -m dashboards`.

**Critical** is what wakes somebody, by one criterion: data are lost or promises are void; or nobody would know, because
the canary is blind or its way to a pager is broken; or writes are refused now. All else that needs a person is a
**warning**. What is *critical, warning* is as severe as the violation itself.

The **class** says what it is about, the worst first: {classes}. The worst open violation heads an
incident; Alertmanager groups by cluster and class, so that the echoes of a loss ring once and a loss in an outage rings
by itself.

**Alert**: by Prometheus. **Notify**: how a receiver of `notify` is told (see [Notifications](notifications.md));
*incident*: of an incident with a violation of this kind.
"""


def conditions() -> str:
    """Return the page, in Markdown."""
    parts = [_HEAD.format(classes=", ".join(CLASSES))]
    for group, rules in GROUPS.items():
        parts.append(f"## {TITLES[group]}\n\n| alert | about | class | severity | notify |\n|---|---|---|---|---|")
        parts[-1] += "".join(map(_row, rules)) + "\n"
    silent = [f"`{one.name}` ({_why_not(one.scopes)})" for one in CATALOGUE.values() if not rings(one)]
    parts.append(f"## Without an alert\n\n{'; '.join(silent)}.\n")
    return "\n".join(parts)


def _row(rule: Rule) -> str:
    about = f"`{rule.kind}`" if rule.kind else rule.meaning
    severity = ", ".join((rule.severity, *rule.milder))
    notify = "incident" if rule.kind else rule.notify
    return f"\n| [{rule.name}](runbooks/{rule.name}.md) | {about} | {rule.class_} | {severity} | {notify} |"


def _why_not(scopes: tuple[str, ...]) -> str:
    return "in recorded histories alone" if set(scopes) == {"offline"} else "never more than info"
