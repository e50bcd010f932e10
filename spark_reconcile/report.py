"""A run as one page that needs nothing else: the table, what is wrong and where, days and partitions."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, timedelta
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import jinja2

from canary.anomalies.catalogue import CATALOGUE
from spark_reconcile.findings import cases

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_reconcile.bounding import Place
    from spark_reconcile.columns import I64

WORST: Final = 200
"""Cases shown on the page; all are in anomalies/."""
_EPOCH: Final = date(1970, 1, 1)

_TABLE: Final = {
    "attempted": "attempted",
    "acked": "acknowledged",
    "survivors": "survivors",
    "acked_lost": "acknowledged and lost",
    "unacked_found": "unacknowledged and found",
    "ack_rate": "ack rate",
    "loss_rate": "loss rate",
    "unacked_but_successful_rate": "unacknowledged but successful rate",
    "loss_rate_upper_95": "loss rate, upper bound at 95 %",
}


def render(
    summary: Mapping[str, Any],
    tables: Mapping[Place, Mapping[tuple[str, int], I64]],
    out: str,
    *,
    seconds: float | None = None,
) -> str:
    """Return the page for a run whose anomalies/ stand in ``out``."""
    shown = list(itertools.islice(cases(out), WORST + 1))
    table = summary["summary"]
    rates = {
        name: (f"{value:.6g}" if isinstance(value, float) else f"{value:,}")
        for name, value in table.items()
        if value is not None
    }
    page = resources.files("spark_reconcile").joinpath("report.html.jinja").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    days = [
        {
            "place": place,
            "mode": mode,
            "day": (_EPOCH + timedelta(days=day)).isoformat(),
            "numbers": row.tolist(),
            "lost": bool(row[3]),
        }
        for place, cells in sorted(tables.items())
        for (mode, day), row in sorted(cells.items())
    ]
    return environment.from_string(page).render(
        sentence=sentence(summary),
        bad=bool(summary["anomalies"] or summary["unjudged"]),
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=seconds,
        table=[(words, rates.get(name, "-")) for name, words in _TABLE.items()],
        notes=summary["notes"],
        unjudged=summary["unjudged"],
        anomalies=[
            {"name": name, "count": count, "meaning": CATALOGUE[name].meaning, "do_first": CATALOGUE[name].do_first}
            for name, count in summary["anomalies"].items()
        ],
        cases=shown[:WORST],
        more=len(shown) > WORST,
        verdicts=summary["verdicts"].items(),
        days=days,
        told=lambda value: "" if value is None else value,
    )


def sentence(summary: Mapping[str, Any]) -> str:
    """Return the whole run in one sentence."""
    acked, lost = summary["summary"]["acked"], summary["summary"]["acked_lost"]
    words = f"{lost:,} of {acked:,} acknowledged probes lost" if lost else f"none of {acked:,} acknowledged probes lost"
    others = [f"{count} {name}" for name, count in summary["anomalies"].items() if name != "lost-write"]
    if others:
        words += ", " + ", ".join(others)
    if summary["unjudged"]:
        words += f", {len(summary['unjudged'])} partitions not judged"
    return words
