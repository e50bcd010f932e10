"""Prometheus rules: an alert for every anomaly that may be critical, and one for each way in which the canary is blind.

Adding an alert is adding an entry to the tuple of its module; the rules file, the runbooks in docs and in the API, and
the Helm chart are made from it by ``python -m dashboards``.
"""

from dashboards.rules.anomalies import ANOMALIES, alert_name
from dashboards.rules.coverage import COVERAGE
from dashboards.rules.rule import Rule
from dashboards.rules.runners import RUNNERS
from dashboards.rules.serving import SERVING
from dashboards.rules.writes import WRITES

__all__ = ["GROUPS", "TITLES", "Rule", "alert_name"]

GROUPS: dict[str, tuple[Rule, ...]] = {
    "kafka-durability": ANOMALIES,
    "kafka-durability-canary-blind": (*SERVING, *RUNNERS, *WRITES, *COVERAGE),
}
"""The rules by group."""
TITLES = {
    "kafka-durability": "Broken promises, and what endangers them",
    "kafka-durability-canary-blind": "The canary itself",
}
"""Headings of the groups."""
