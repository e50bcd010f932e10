"""What all dashboards have in common: variables, links to one another, a mark at every new violation."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from grafana_foundation_sdk.builders import dashboard as builder
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard

from dashboards.boards.panels import SOURCE
from dashboards.boards.queries import HEARTBEAT, HERE, increase

TAG: Final = "durability-canary"
SCHEMA: Final = 42
"""Of Grafana 12. The SDK's is that of Grafana 10; in what they differ nothing here is written in the old way, so that
neither Grafana 11 nor 12 migrates anything (tests.dashboards).
"""
SENT: Final = "canary_probes_sent_total"
CRITICAL: Final = f'{HERE}, severity="critical"'
PLACE: Final = f'{HERE}, topic=~"$topic"'
PARTITION: Final = f'{PLACE}, partition=~"$partition"'

Panels = Sequence[Builder[dashboard.Panel]]
Section = tuple[str, Panels]
"""A heading and the panels below it."""


@dataclass(frozen=True, slots=True)
class Variable:
    """What may be chosen at the head of a dashboard: the values of a label, one or (``many``) several or all."""

    name: str
    label: str
    query: str
    many: bool = True


CLUSTER: Final = Variable("cluster", "Cluster", f"label_values({HEARTBEAT}, cluster)")
ONE_CLUSTER: Final = Variable("cluster", "Cluster", CLUSTER.query, many=False)
TOPIC: Final = Variable("topic", "Topic", f"label_values({SENT}{{{HERE}}}, topic)")
NUMBER: Final = Variable("partition", "Partition", f"label_values({SENT}{{{PLACE}}}, partition)")


def board(
    uid: str,
    title: str,
    description: str,
    *,
    variables: Sequence[Variable],
    sections: Sequence[Section],
    back: str,
    folded: Collection[str] = (),
) -> str:
    """Return a dashboard as Grafana's JSON.

    ``back`` is how far it looks back when it is opened (like 1h); the sections ``folded`` are asked for only when they
    are opened.
    """
    made = (
        builder.Dashboard(title)
        .uid(uid)
        .description(f"{description} Made from code; do not edit by hand.")
        .tags([TAG, "kafka", "durability"])
        .readonly()
        .refresh("15s")
        .time(f"now-{back}", "now")
        .timezone("utc")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .with_variable(builder.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(
            _query("canary", "label_values(canary_api_info, url)")
            .refresh(dashboard.VariableRefresh.ON_DASHBOARD_LOAD)
            .hide(dashboard.VariableHide.HIDE_VARIABLE)
        )
        .annotation(
            builder.AnnotationQuery()
            .name("New violations")
            .datasource(SOURCE)
            .enable(True)
            .icon_color("red")
            .expr(f"sum by (cluster, kind) ({increase('canary_violations_total', HERE, '1m')}) > 0")
        )
    )
    for variable in variables:
        made.with_variable(_chosen(variable))
    for link in _links():
        made.link(link)
    for heading, panels in sections:
        row = builder.Row(heading)
        if heading in folded:
            for panel in panels:
                row.with_panel(panel)
        made.with_row(row)
        for panel in panels if heading not in folded else ():
            made.with_panel(panel)
    built = made.build()
    built.schema_version = SCHEMA
    return json.dumps(built, cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def _links() -> list[builder.DashboardLink]:
    others = (
        builder.DashboardLink("Dashboards")
        .type(dashboard.DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(True)
        .include_vars(True)
        .keep_time(True)
        .tooltip("The canary's other dashboards, with the same time and choice")
    )
    pages = (("Status page", "/"), ("Incidents", "/incidents"), ("Runbooks", "/runbooks"))
    return [others, *(to_page(title, path).icon("external link") for title, path in pages)]


def to_page(title: str, path: str) -> builder.DashboardLink:
    """Return a panel's link to a page of the canary; ``path`` begins with / and may hold variables."""
    return (
        builder.DashboardLink(title).type(dashboard.DashboardLinkType.LINK).url("${canary}" + path).target_blank(True)
    )


def _chosen(variable: Variable) -> builder.QueryVariable:
    made = (
        _query(variable.name, variable.query)
        .label(variable.label)
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.NUMERICAL_ASC if variable is NUMBER else dashboard.VariableSort.ALPHABETICAL_ASC)
    )
    return made.multi(True).include_all(True).all_value(".*") if variable.many else made


def _query(name: str, query: str) -> builder.QueryVariable:
    return builder.QueryVariable(name).datasource(SOURCE).query(query)
