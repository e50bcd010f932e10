"""Pictures of an incident as Plotly figures (JSON for the browser); tables beside them have the same facts."""

import re
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from api.rest.unseen import UnseenOut
from api.shapes import moment
from storage.store.values import StoredViolation, TopologySpan

# Okabe and Ito's colours, which colour-blind people distinguish, on white and on black.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999")
ALARM = "#D55E00"


@cache
def plotly_js() -> Path:
    """Return Plotly's script, as its Python package brings it."""
    import plotly  # noqa: PLC0415  # takes its time

    return Path(plotly.__file__).parent / "package_data" / "plotly.min.js"


@cache
def unwanted_styles() -> tuple[str, ...]:
    """Return the ids of inline styles that Plotly adds for its maps unless the page has an element of that id."""
    return tuple(
        sorted(set(re.findall(r'getElementById\("([0-9a-f]{64})"\)', plotly_js().read_text(encoding="utf-8"))))
    )


def timeline(
    spans: Sequence[TopologySpan], violations: Sequence[StoredViolation], begin: datetime, end: datetime
) -> str:
    """Return the leaders and ISRs of partitions over time, with the violations, as a figure's JSON."""
    go = _graph_objects()
    figure = go.Figure()
    leaders = sorted({span.leader for span in spans if span.leader is not None})
    for leader in leaders:
        xs: list[Any] = []
        ys: list[Any] = []
        words: list[str] = []
        for span in spans:
            if span.leader == leader:
                since = max(moment(span.at_ns), begin)
                until = end if span.until_ns is None else min(moment(span.until_ns), end)
                label = f"ISR {list(span.isr)} of {list(span.replicas)}"
                xs += [since, until, None]
                ys += [f"{span.topic}-{span.number}"] * 2 + [None]
                words += [label, label, ""]
        name = "no leader" if leader < 0 else f"broker {leader} leads"
        colour = COLOURS[6] if leader < 0 else COLOURS[leader % 6]
        figure.add_trace(
            go.Scatter(x=xs, y=ys, text=words, name=name, mode="lines", line={"width": 14, "color": colour})
        )
    figure.add_trace(
        go.Scatter(
            x=[moment(row.first_seen_ns) for row in violations],
            y=[f"{row.topic}-{row.partition}" if row.partition is not None else row.topic for row in violations],
            text=[f"{row.kind}: {row.summary}" for row in violations],
            name="found",
            mode="markers",
            marker={"size": 13, "symbol": "x", "color": ALARM, "line": {"width": 1, "color": "#ffffff"}},
        )
    )
    figure.update_xaxes(range=[begin, end])
    return _json(figure)


def unseen(series: UnseenOut) -> str:
    """Return unread probes over time, a line for each partition and consumer, as a figure's JSON."""
    go = _graph_objects()
    figure = go.Figure()
    for number, one in enumerate(series.items):
        figure.add_trace(
            go.Scatter(
                x=[point.at for point in one.points],
                y=[point.unseen for point in one.points],
                name=f"{one.topic}-{one.partition} {one.consumer}",
                mode="lines",
                line={"shape": "hv", "color": COLOURS[number % len(COLOURS)]},
            )
        )
    figure.update_yaxes(title="acknowledged, not yet read", rangemode="tozero")
    return _json(figure)


def _graph_objects() -> Any:
    import plotly.graph_objects as go  # noqa: PLC0415  # takes its time

    return go


def _json(figure: Any) -> str:
    """Return the figure as JSON that is safe in a <script> element."""
    figure.update_layout(
        template="none",
        margin={"l": 10, "r": 10, "t": 10, "b": 10},
        height=320,
        legend={"orientation": "h"},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
    )
    figure.update_xaxes(automargin=True)
    figure.update_yaxes(automargin=True)
    text: str = figure.to_json()
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
