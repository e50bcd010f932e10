"""Runbooks: what to do about each alert and each kind of violation, with commands that were tried.

A runbook is a value of a module here, for alerts that are alike; it names their kinds, or the alerts that are about no
kind. What one alert alone has to say (its meaning, the first step) is in its rule or in its kind's entry in the
catalogue of anomalies. Pages in docs and in the API are made from both by ``python -m dashboards``.
"""

from typing import Final

from dashboards.runbooks import (
    availability,
    canary_itself,
    cluster_state,
    coverage,
    groups,
    lost_data,
    mirrors,
    order,
    transactions,
)
from dashboards.runbooks.runbook import Runbook

__all__ = ["RUNBOOKS", "Runbook", "runbook_of"]

_MODULES: Final = (
    lost_data,
    order,
    transactions,
    cluster_state,
    availability,
    groups,
    mirrors,
    canary_itself,
    coverage,
)
RUNBOOKS: Final = tuple(one for module in _MODULES for one in vars(module).values() if isinstance(one, Runbook))
_BY_NAME: Final = {name: one for one in RUNBOOKS for name in (*one.kinds, *one.alerts)}


def runbook_of(alert: str, kind: str) -> Runbook:
    """Return the runbook of an alert, or ("" for ``alert``) of a kind of violation; kind: "" if it is about none."""
    return _BY_NAME.get(kind) or _BY_NAME.get(alert) or (coverage.ANY_FINDING if kind else coverage.ANY_ALERT)
