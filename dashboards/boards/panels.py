"""The few kinds of panel that the dashboards are made of, all in one style.

Absence is never shown as none: a panel without series says that there is no data, and what switches it on if a default
install has none. A 0 that is good news, and the word none, need a sample of 0 and a canary that judges now.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from grafana_foundation_sdk.builders import common as common_builder
from grafana_foundation_sdk.builders import dashboard as dashboard_builder
from grafana_foundation_sdk.builders import heatmap as heatmap_builder
from grafana_foundation_sdk.builders import prometheus, stat, table, text, timeseries
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models import heatmap as heatmap_model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat
from grafana_foundation_sdk.models.text import TextMode

from canary.metrics import METRICS
from dashboards.boards.queries import HEARTBEAT, HERE, SERVED, buckets, gauge, increase, quantile, rate, switches
from dashboards.rules.thresholds import SILENT_S

P = TypeVar("P", stat.Panel, timeseries.Panel, table.Panel, text.Panel, heatmap_builder.Panel)

OUTCOMES = ("sent", "acked", "failed", "indeterminate", "skipped")
SOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")

PER_INTERVAL = "$__rate_interval"
Query = tuple[str, str]
"""An expression and the legend of its series."""
Step = tuple[float | None, str]
"""From this value on, this colour; None = from the beginning."""

RED_FROM_ONE: Sequence[Step] = [(None, "green"), (1, "red")]
ORANGE_FROM_ONE: Sequence[Step] = [(None, "green"), (1, "orange")]
_AGE = f"time() - max by (cluster) ({gauge(HEARTBEAT, HERE)})"
_UNITS = {"seconds": "s", "ratio": "percentunit"}
"""By the last word of a metric's name."""


def describe(name: str, more: str = "") -> str:
    """Return the help of a metric, and what to think of it."""
    return f"{METRICS[name].help} {more}".strip()


def number(
    title: str, description: str, expression: str, *, unit: str = "short", steps: Sequence[Step] = (), w: int = 4
) -> stat.Panel:
    """Return one big number; coloured by ``steps``. One that is red or orange from 1 on counts what should be none."""
    if steps in (RED_FROM_ONE, ORANGE_FROM_ONE):
        expression = f"({expression}) > 0 or ({expression}) and on () (max({_AGE}) < {SILENT_S})"
    panel = (
        _asking(stat.Panel(), title, description, [(expression, "")], h=5, w=w)
        .unit(unit)
        .graph_mode(common.BigValueGraphMode.NONE)
        .color_mode(common.BigValueColorMode.BACKGROUND if steps else common.BigValueColorMode.VALUE)
        .reduce_options(common_builder.ReduceDataOptions().calcs(["lastNotNull"]))
        .with_target(_target((expression, "")).instant())
    )
    if steps:
        panel.thresholds(_thresholds(steps))
    return panel


def _thresholds(steps: Sequence[Step]) -> dashboard_builder.ThresholdsConfig:
    thresholds = [dashboard.Threshold(value=value, color=color) for value, color in steps]
    return dashboard_builder.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(thresholds)


def states(
    title: str, description: str, expression: str, shown: str, words: Sequence[tuple[str, str]], w: int = 12
) -> stat.Panel:
    """Return a word for each series: the value is the number of the word, each with its colour; ``shown`` names it."""
    mapped = {str(i): dashboard.ValueMappingResult(word, color, None, i) for i, (word, color) in enumerate(words)}
    return (
        _asking(stat.Panel(), title, description, [(expression, shown)], h=5, w=w)
        .graph_mode(common.BigValueGraphMode.NONE)
        .color_mode(common.BigValueColorMode.BACKGROUND)
        .text_mode(common.BigValueTextMode.VALUE_AND_NAME)
        .mappings([dashboard.ValueMap(mapped)])
        .reduce_options(common_builder.ReduceDataOptions().calcs(["lastNotNull"]))
        .with_target(_target((expression, shown)).instant())
    )


def level(title: str, name: str, where: str, more: str, *, total: str = "sum", **look: Any) -> stat.Panel:
    """Return the sum (or another ``total``) of a metric's series as one big number; ``look`` is as for ``number``."""
    return number(title, describe(name, more), f"{total}({gauge(name, where)})", **look)


def store_reachable(where: str) -> stat.Panel:
    """Return whether an API of each cluster reaches its store."""
    return number(
        "Store reachable",
        describe(SERVED, "Of the worst cluster. Without the store /metrics shows nothing else; probing goes on."),
        f"min(max by (cluster) ({gauge(SERVED, where)}))",
        steps=[(None, "red"), (1, "green")],
    )


def lines(
    title: str,
    description: str,
    queries: Sequence[Query],
    *,
    unit: str = "short",
    w: int = 12,
    floor: float | None = 0,
    limits: Sequence[Step] = (),
) -> timeseries.Panel:
    """Return a panel of lines over time; at each of the ``limits`` there is a line, as where an alert fires."""
    panel = (
        _asking(timeseries.Panel(), title, description, queries, h=8, w=w)
        .unit(unit)
        .line_width(1)
        .fill_opacity(8)
        .show_points(common.VisibilityMode.NEVER)
        .span_nulls(False)
        .legend(
            common_builder.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
            .show_legend(True)
        )
        .tooltip(
            common_builder.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING)
        )
        .targets([_target(query, ref=chr(ord("A") + i)).range() for i, query in enumerate(queries)])
    )
    if floor is not None:
        panel.axis_soft_min(floor)
    if limits:
        panel.thresholds(_thresholds([(None, "transparent"), *limits]))
        panel.thresholds_style(common_builder.GraphThresholdsStyleConfig().mode(common.GraphTresholdsStyleMode.DASHED))
    return panel


def trend(
    title: str,
    name: str,
    where: str,
    more: str = "",
    *,
    by: str = "cluster",
    total: str = "",
    above: str = "",
    **look: Any,
) -> timeseries.Panel:
    """Return a panel of one metric over time: a gauge's value, or what a counter rises by in each interval.

    ``by`` are the labels in the legend; series that have them in common become one by ``total``, such as sum ("": each
    is shown). ``above`` is a comparison that leaves series out, such as > 0. ``look`` is as for ``lines``; with the
    unit ops a counter's rate is shown.
    """
    unit = look.setdefault("unit", _UNITS.get(name.rpartition("_")[2], "short"))
    if METRICS[name].type == "gauge":
        shown = gauge(name, where)
    else:
        shown = rate(name, where) if unit == "ops" else increase(name, where, PER_INTERVAL)
    if total:
        shown = f"{total} by ({by}) ({shown})"
    return lines(title, describe(name, more), [(f"{shown} {above}".strip(), legend(by))], **look)


def legend(by: str) -> str:
    """Return the legend that shows some labels: "topic, partition" becomes {{topic}}-{{partition}}."""
    shown = " ".join(f"{{{{{label}}}}}" for label in by.split(", "))
    return shown.replace("{{topic}} {{partition}}", "{{topic}}-{{partition}}")


def outcomes(where: str) -> timeseries.Panel:
    """Return what becomes of probes, by outcome."""
    return lines(
        "Outcomes of probes",
        "Probes a second: handed to the client, acknowledged, definitely not written, of unknown outcome, and skipped.",
        [(f"sum ({rate(f'canary_probes_{one}_total', where)})", one) for one in OUTCOMES],
        unit="ops",
    )


def median_and_worst(title: str, name: str, where: str, by: str, w: int = 12) -> timeseries.Panel:
    """Return the median and the 99th percentile of a histogram over time, by labels."""
    queries = [
        (quantile(q, name, where, by), f"{legend(by)} {label}") for q, label in ((0.5, "median"), (0.99, "99 %"))
    ]
    return lines(title, describe(name, "Median and 99th percentile."), queries, unit="s", w=w)


def heatmap(title: str, name: str, where: str, more: str = "", *, w: int = 12) -> heatmap_builder.Panel:
    """Return a histogram over time: how many observations of each interval lie in each of its buckets."""
    query = f"sum by (le) ({buckets(name, where, PER_INTERVAL)})", "{{le}}"
    panel = (
        _asking(heatmap_builder.Panel(), title, describe(name, more), [query], h=8, w=w)
        .calculate(False)
        .cell_gap(1)
        .show_value(common.VisibilityMode.NEVER)
        .show_legend()
        .cell_values(heatmap_builder.CellValues().unit("short").decimals(0))
        .y_axis(
            heatmap_builder.YAxisConfig()
            .unit(_UNITS[name.rpartition("_")[2]])
            .reverse(False)
            .axis_placement(common.AxisPlacement.LEFT)
        )
        .color(
            heatmap_builder.HeatmapColorOptions()
            .mode(heatmap_model.HeatmapColorMode.SCHEME)
            .scheme("Oranges")
            .fill("dark-orange")
            .scale(heatmap_model.HeatmapColorScale.EXPONENTIAL)
            .exponent(0.5)
            .steps(64)
        )
        .with_target(_target(query).range().format(PromQueryFormat.HEATMAP))
    )
    panel.build().options.tooltip = _Tooltip()
    return panel


class _Tooltip(heatmap_model.HeatmapTooltip):  # type: ignore[misc]  # the SDK has no types
    """A heatmap's tooltip as Grafana 11 and later keep it; the SDK writes that of Grafana 10, which they migrate."""

    def to_json(self) -> dict[str, object]:
        """Return what Grafana keeps."""
        return {"mode": "single", "yHistogram": True, "showColorScale": False}


def rows(
    title: str,
    description: str,
    expression: str,
    *,
    w: int = 12,
    hidden: Sequence[str] = (),
    value: tuple[str, str] = ("Value", "short"),
    links: Mapping[str, tuple[str, str]] = MappingProxyType({}),
    none: str = "",
) -> table.Panel:
    """Return a table with a row for each series of an instant query, without the labels ``hidden``.

    ``value`` is the name and the unit of the column of values, ``links`` by label the title and address of what its
    values link to. ``none``: what has samples for each cluster of which it is known that it may have no row; while the
    cluster is judged, it then has one that says none.
    """
    name, unit = value
    if none:
        expression = (
            f"({expression}) or on (cluster) (0 * max by (cluster) ({none}) and on (cluster) {_AGE} < {SILENT_S})"
        )
    panel = (
        _asking(table.Panel(), title, description, [(expression, "")], h=8, w=w)
        .with_target(_target((expression, "")).instant().format(PromQueryFormat.TABLE))
        .transformations(
            [
                dashboard.DataTransformerConfig(
                    id_val="organize",
                    options={
                        "excludeByName": dict.fromkeys(("Time", "__name__", "job", *hidden), True),
                        "renameByName": {"Value": name} if name != "Value" else {},
                    },
                )
            ]
        )
    )
    if none:
        panel.mappings([dashboard.ValueMap({"0": dashboard.ValueMappingResult("none", "green", None, 0)})])
    if unit != "short":
        panel.override_by_name(name, [dashboard.DynamicConfigValue(id_val="unit", value=unit)])
    for label, (words, url) in links.items():
        target = {"title": words, "url": url, "targetBlank": True}
        panel.override_by_name(label, [dashboard.DynamicConfigValue(id_val="links", value=[target])])
    return panel


def words(title: str, description: str, content: str) -> text.Panel:
    """Return a panel of Markdown."""
    panel = _placed(text.Panel(), title, description, h=4, w=24)
    return panel.mode(TextMode.MARKDOWN).content(content).transparent(True)


def _asking(panel: P, title: str, description: str, queries: Sequence[Query], *, h: int, w: int) -> P:
    """Return a panel that asks Prometheus; where a default install has nothing to show, it says what to do."""
    to_do = switches(expression for expression, _ in queries)
    said, empty = (
        (f"{description} Off by default: {to_do}.", f"off or no data: {to_do}") if to_do else (description, "no data")
    )
    return _placed(panel, title, said, h=h, w=w).datasource(SOURCE).no_value(empty)


def _placed(panel: P, title: str, description: str, *, h: int, w: int) -> P:
    """Return a panel with its heading and size; a row of the board is 24 wide."""
    return panel.title(title).description(description).height(h).span(w)


def _target(query: Query, ref: str = "A") -> prometheus.Dataquery:
    expression, shown = query
    return prometheus.Dataquery().expr(expression).legend_format(shown).ref_id(ref).datasource(SOURCE)
