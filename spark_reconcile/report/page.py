"""A run as one self-contained page: the table, anomalies and where they are, days and partitions."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib import resources
from typing import Any, Final

import jinja2
import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup

from canary.anomalies.catalogue import CATALOGUE
from canary.anomalies.policy import severity
from spark_reconcile.match.anomalies import LOST_WRITE
from spark_reconcile.report.output import CASE_SCHEMA
from spark_reconcile.report.pictures import PICTURED, Loss, around
from spark_reconcile.tables.bounds import Place
from spark_reconcile.tables.columns import I64
from spark_reconcile.tables.parquet import result_batches
from spark_reconcile.tables.schema import File
from storage.store.cursors import Excerpt

WORST: Final = 200
"""Cases shown on the page; all are in anomalies/."""
_BATCH: Final = 1 << 16
_SEVERITIES: Final = ("critical", "warning", "info")
_PLACE: Final = "<!-- here and online -->"

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
    files: Mapping[str, Sequence[File]],
) -> str:
    """Return the page for a run whose anomalies/ and lost/ are in ``out``, and whose input was ``files``."""
    worst = _worst(out)
    loss = Loss.of(out)
    pictured = [case for case in _of_each_kind(worst.items) if case["offset"] is not None][:PICTURED]
    page = resources.files("spark_reconcile.report").joinpath("report.html.jinja").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, finalize=lambda value: "" if value is None else value
    )
    days = [
        {"place": place, "mode": mode, "day": date(1970, 1, 1) + timedelta(days=day), "numbers": row.tolist()}
        for place, cells in sorted(tables.items())
        for (mode, day), row in sorted(cells.items())
    ]
    return environment.from_string(page).render(
        sentence=sentence(summary),
        bad=bool(summary["anomalies"] or summary["unjudged"]),
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        table=[(words, _number(summary["summary"][name])) for name, words in _TABLE.items()],
        notes=summary["notes"],
        unjudged=summary["unjudged"],
        anomalies=[(CATALOGUE[name], count) for name, count in summary["anomalies"].items()],
        cases=worst.items,
        only=worst.words("worst", "cases").capitalize() if worst.truncated else None,
        verdicts=summary["verdicts"].items(),
        days=days,
        loss=None if loss is None else loss.svg(),
        most=None if loss is None else Excerpt([*loss.counts], loss.partitions),
        pictures=[around(files, case) for case in pictured],
    )


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def with_section(page: str, heading: str, sentences: Sequence[str]) -> str:
    """Return a page with a further section, in the place reserved for them."""
    items = Markup("").join(Markup("<li>{}</li>\n").format(sentence) for sentence in sentences)
    return page.replace(_PLACE, f"<h2>{heading}</h2>\n<ul>\n{items}</ul>\n{_PLACE}")


def _worst(out: str) -> Excerpt[Mapping[str, Any]]:
    """Return at most WORST cases of a run, critical ones first, then by kind and place."""
    worst, total = CASE_SCHEMA.empty_table(), 0
    for batch in result_batches(out, "anomalies", _BATCH):
        total += batch.num_rows
        rows = pa.concat_tables([worst, pa.Table.from_batches([batch]).cast(CASE_SCHEMA)])
        whose = zip(rows.column("kind").to_pylist(), rows.column("mode").to_pylist(), strict=True)
        ranked = rows.append_column("rank", pa.array([_rank(kind, mode) for kind, mode in whose], pa.int8()))
        ranked = ranked.append_column("at", pc.fill_null(rows.column("offset"), -1))
        keys = [(name, "ascending") for name in ("rank", "kind", "cluster", "topic", "partition", "at")]
        worst = rows.take(pc.sort_indices(ranked, sort_keys=keys)[:WORST])
    return Excerpt(worst.to_pylist(), total)


@cache
def _rank(kind: str, mode: str | None) -> int:
    return _SEVERITIES.index(severity(kind, mode))


def _of_each_kind(some: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the first case of each kind, then the second of each, and so on."""
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for case in some:
        kinds.setdefault(case["kind"], []).append(case)
    for turn in itertools.zip_longest(*kinds.values()):
        yield from (case for case in turn if case is not None)


def sentence(summary: Mapping[str, Any]) -> str:
    """Return the whole run in one sentence."""
    acked, lost = summary["summary"]["acked"], summary["summary"]["acked_lost"]
    words = f"{lost:,} of {acked:,} acknowledged probes lost" if lost else f"none of {acked:,} acknowledged probes lost"
    others = [f"{count} {name}" for name, count in summary["anomalies"].items() if name != LOST_WRITE.kind]
    if others:
        words += ", " + ", ".join(others)
    if summary["unjudged"]:
        words += f", {len(summary['unjudged'])} partitions not judged"
    return words
