"""Prometheus rules: an alert for every anomaly that may be critical, and one for each way in which the canary is blind.

Adding an alert is adding an entry to the tuple of its module; the rules file, the runbooks in docs and in the API, and
the Helm chart are made from it by ``python -m dashboards``.
"""

from dashboards.rules.anomalies import ANOMALIES, alert_name
from dashboards.rules.coverage import COVERAGE
from dashboards.rules.mirrors import MIRRORS
from dashboards.rules.objectives import BUDGETS, MEASURED
from dashboards.rules.presence import PRESENCE
from dashboards.rules.rule import Recording, Rule
from dashboards.rules.runners import RUNNERS
from dashboards.rules.serving import SERVING
from dashboards.rules.slowness import SLOWNESS
from dashboards.rules.writes import WRITES

__all__ = ["GROUPS", "RECORDED_EVERY", "RECORDINGS", "TITLES", "Recording", "Rule", "alert_name"]

GROUPS: dict[str, tuple[Rule, ...]] = {
    "kafka-durability": ANOMALIES,
    "kafka-durability-objectives": BUDGETS,
    "kafka-durability-canary-blind": (*PRESENCE, *SERVING, *RUNNERS, *WRITES, *SLOWNESS, *COVERAGE, *MIRRORS),
}
"""The rules by group."""
RECORDINGS: dict[str, tuple[Recording, ...]] = {"kafka-durability-objectives": MEASURED}
"""What a group computes before its alerts, by group."""
RECORDED_EVERY = "1m"
"""How often such a group is evaluated, whatever the interval of the others."""
TITLES = {
    "kafka-durability": "Broken promises, and what endangers them",
    "kafka-durability-objectives": "Objectives",
    "kafka-durability-canary-blind": "The canary itself",
}
"""Headings of the groups."""
