"""The few kinds of panel that the dashboards are made of, all in one style."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import common as common_builder
from grafana_foundation_sdk.builders import dashboard as dashboard_builder
from grafana_foundation_sdk.builders import prometheus, stat, table, text, timeseries
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models.prometheus import PromQueryFormat
from grafana_foundation_sdk.models.text import TextMode

from canary.metrics import metric

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")

Query = tuple[str, str]
"""An expression and the legend of its series."""
Step = tuple[float | None, str]
"""From this value on, this colour; None = from the beginning."""

GREEN_UNTIL: dict[str, Sequence[Step]] = {
    "any": [(None, "green"), (1, "red")],
    "some": [(None, "green"), (1, "orange")],
}


def describe(name: str, more: str = "") -> str:
    """Return the help of a metric, and what to think of it.

    Raises:
        KeyError: the catalogue has no such metric.
    """
    return f"{metric(name).help} {more}".strip()


def number(
    title: str, description: str, query: Query, *, unit: str = "short", steps: Sequence[Step] = (), w: int = 4
) -> stat.Panel:
    """Return one big number; coloured by ``steps``."""
    panel = (
        stat.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .unit(unit)
        .no_value("no data")
        .height(5)
        .span(w)
        .graph_mode(common.BigValueGraphMode.NONE)
        .color_mode(common.BigValueColorMode.BACKGROUND if steps else common.BigValueColorMode.VALUE)
        .reduce_options(common_builder.ReduceDataOptions().calcs(["lastNotNull"]))
        .with_target(_target(query, instant=True))
    )
    if steps:
        panel.thresholds(_thresholds(steps))
    return panel


def lines(
    title: str,
    description: str,
    queries: Sequence[Query],
    *,
    unit: str = "short",
    w: int = 12,
    h: int = 8,
    floor: float | None = 0,
) -> timeseries.Panel:
    """Return a panel of lines over time."""
    panel = (
        timeseries.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .unit(unit)
        .height(h)
        .span(w)
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
        .targets([_target(query, ref=chr(ord("A") + i)) for i, query in enumerate(queries)])
    )
    if floor is not None:
        panel.axis_soft_min(floor)
    return panel


def rows(
    title: str,
    description: str,
    query: Query,
    *,
    w: int = 12,
    h: int = 8,
    hidden: Sequence[str] = (),
    value: str | None = None,
    unit: str = "short",
    links: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> table.Panel:
    """Return a table with a row for each series of an instant query.

    Args:
        title: the heading.
        description: what it shows.
        query: what is asked.
        w: width, of 24.
        h: height.
        hidden: labels that are not shown.
        value: what the column of values is called.
        unit: the values' unit.
        links: by label, the title and address of what its values link to.
    """
    panel = (
        table.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .height(h)
        .span(w)
        .no_value("none")
        .with_target(_target(query, instant=True).format(PromQueryFormat.TABLE))
        .transformations(
            [
                dashboard.DataTransformerConfig(
                    id_val="organize",
                    options={
                        "excludeByName": dict.fromkeys(("Time", "__name__", "job", *hidden), True),
                        "renameByName": {"Value": value} if value else {},
                    },
                )
            ]
        )
    )
    if unit != "short":
        panel.override_by_name(value or "Value", [dashboard.DynamicConfigValue(id_val="unit", value=unit)])
    for label, (words, url) in links.items():
        target = {"title": words, "url": url, "targetBlank": True}
        panel.override_by_name(label, [dashboard.DynamicConfigValue(id_val="links", value=[target])])
    return panel


def words(title: str, description: str, content: str, *, w: int = 24, h: int = 4) -> text.Panel:
    """Return a panel of Markdown."""
    return (
        text.Panel()
        .title(title)
        .description(description)
        .mode(TextMode.MARKDOWN)
        .content(content)
        .transparent(True)
        .height(h)
        .span(w)
    )


def row(title: str) -> dashboard_builder.Row:
    """Return a heading under which the next panels stand."""
    return dashboard_builder.Row(title)


def _target(query: Query, *, ref: str = "A", instant: bool = False) -> prometheus.Dataquery:
    expression, legend = query
    target = prometheus.Dataquery().expr(expression).legend_format(legend).ref_id(ref).datasource(SOURCE)
    return target.instant() if instant else target.range()


def _thresholds(steps: Sequence[Step]) -> dashboard_builder.ThresholdsConfig:
    return (
        dashboard_builder.ThresholdsConfig()
        .mode(dashboard.ThresholdsMode.ABSOLUTE)
        .steps([dashboard.Threshold(value=value, color=color) for value, color in steps])
    )
