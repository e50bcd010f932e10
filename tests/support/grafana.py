"""A dashboard as Grafana would ask it: its panels, and their queries with every variable chosen."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CHOSEN = {"$__rate_interval": "1m", "$__range": "5m"}


def panels(board: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the panels of a dashboard, those of rows too."""
    for panel in board["panels"]:
        yield from panel.get("panels") or ([] if panel["type"] == "row" else [panel])


def queries(board: Mapping[str, Any]) -> list[str]:
    """Return the PromQL of every panel and annotation, everything chosen."""
    asked = [target["expr"] for panel in panels(board) for target in panel.get("targets", ())]
    asked += [one["expr"] for one in board["annotations"]["list"] if "expr" in one]
    return [chosen(one) for one in asked]


def chosen(expression: str) -> str:
    """Return an expression with its variables in place: all of everything."""
    for name, value in CHOSEN.items():
        expression = expression.replace(name, value)
    return re.sub(r"\$\{?\w+\}?", ".*", expression)
