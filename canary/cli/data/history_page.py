"""The report of ``canary check --html``: one file with the pictures of the Jepsen reports, no network."""

import html
from collections.abc import Iterator
from importlib import resources
from typing import Any

import jinja2
import numpy as np
import plotly.graph_objects as go
import plotly.io

from canary.anomalies.catalogue import CATALOGUE
from canary.anomalies.offline import Verdict, metrics
from canary.anomalies.offline.tables import Tables
from canary.cli.data.history_report import describe, one_line, rows_of, sentence, severity_of
from canary.history.columns import INVOKE, UNKNOWN
from canary.history.operation import TYPES

MAX_POINTS = 20_000
MAX_KEYS = 8
MAX_CASES = 25
MAX_CYCLES = 8
_COLOURS = {"ok": "#2e8b57", "fail": "#d62728", "info": "#ff9f1c"}
_PALETTE = ("#d62728", "#1f77b4", "#ff7f0e", "#9467bd", "#2ca02c", "#e377c2", "#17becf", "#bcbd22", "#8c564b", "#000")
_ALWAYS_SHOWN = ("inconsistent-offsets", "duplicate", "lost-write")


def render(verdict: Verdict) -> str:
    """Return the page."""
    page = resources.files("canary.cli.data").joinpath("history.html.jinja").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    figures = enumerate(figure for figure in _figures(verdict) if figure is not None)
    return environment.from_string(page).render(
        verdict=verdict,
        sentence=sentence(verdict),
        anomalies=[_anomaly(verdict, name) for name in verdict.anomalies],
        pictures=[
            (title, words, plotly.io.to_html(figure, full_html=False, include_plotlyjs=False if number else "inline"))
            for number, (title, words, figure) in figures
        ],
    )


def _anomaly(verdict: Verdict, name: str) -> dict[str, Any]:
    history, cases = verdict.tables.history, verdict.anomalies[name]
    return {
        "name": name,
        "count": len(cases),
        "severity": "allowed" if name in verdict.allowed else severity_of(name),
        "meaning": CATALOGUE[name].meaning,
        "cases": [
            (one_line(case), [describe(history, row, case) for row in rows_of(history, case)])
            for case in cases[:MAX_CASES]
        ],
    }


def _figures(verdict: Verdict) -> Iterator[tuple[str, str, Any] | None]:
    yield _unseen(verdict.tables)
    for key in _keys_worth_a_look(verdict):
        yield _log_view(verdict.tables, key)
    yield _latency(verdict.tables)
    for name in ("G1c", "G0"):
        for number, case in enumerate(verdict.anomalies.get(name, ())[:MAX_CYCLES]):
            yield _cycle(f"{name}, cycle {number + 1}", case)


def _unseen(tables: Tables) -> tuple[str, str, Any] | None:
    rows, keys, changes = metrics.unseen_changes(tables)
    if len(rows) == 0:
        return None
    history = tables.history
    figure = go.Figure()
    moments = np.unique(rows)
    step = max(1, len(moments) // 2000)
    shown = np.unique(np.append(moments[::step], moments[-1]))
    names = np.unique(keys)
    left = np.bincount(keys, weights=changes, minlength=len(history.keys)) * len(rows) + np.bincount(
        keys, minlength=len(history.keys)
    )
    worst = sorted(names, key=lambda key: -left[key])[: 4 * MAX_KEYS]
    for key in sorted(worst, key=lambda k: history.keys[k]):
        mine = keys == key
        at, count = rows[mine], np.cumsum(changes[mine])
        place = np.searchsorted(at, shown, side="right") - 1
        figure.add_scatter(
            x=history.time[shown] / 1e9,
            y=np.where(place >= 0, count[np.maximum(place, 0)], 0),
            name=f"key {history.keys[key]}",
            stackgroup="unseen",
            mode="lines",
            line={"width": 0.5, "shape": "hv"},
        )
    figure.update_layout(xaxis_title="time (s)", yaxis_title="unseen messages", height=380, **_LOOK)
    words = "Acknowledged and not polled by any consumer so far, by key. What is left at the end was never seen."
    return "Unseen messages over time", words, figure


def _keys_worth_a_look(verdict: Verdict) -> list[str]:
    disputed = (case["key"] for name in _ALWAYS_SHOWN for case in verdict.anomalies.get(name, ())[:1000])
    unseen = (key for case in verdict.anomalies.get("unseen", ()) for key in case["unseen"])
    return list(dict.fromkeys([*disputed, *unseen]))[:MAX_KEYS]


def _log_view(tables: Tables, key_name: str) -> tuple[str, str, Any] | None:
    """Return each operation's view of a log: offset to the right, time downwards."""
    history = tables.history
    key = history.keys.index(key_name)
    sends = np.flatnonzero(
        (history.send_key == key) & (history.send_offset != UNKNOWN) & (history.type[history.send_op] != INVOKE)
    )
    read_key = tables.message_key[tables.read_message]
    reads = np.flatnonzero((read_key == key) & (history.read_offset != UNKNOWN))
    if len(sends) + len(reads) == 0:
        return None
    op = np.concatenate((history.send_op[sends], tables.read_op[reads]))
    offset = np.concatenate((history.send_offset[sends], history.read_offset[reads]))
    message = np.concatenate((tables.send_message[sends], tables.read_message[reads]))
    verb = np.concatenate((np.full(len(sends), "w"), np.full(len(reads), "r")))
    slots = slice(*tables.key_first_slot[[key, key + 1]])
    disputed = tables.slot_offset[slots][tables.slot_conflict[slots]]
    copied = np.isin(message, np.unique(tables.copies[0]))
    conflict = np.isin(offset, disputed) | copied
    if len(op) > MAX_POINTS:  # what is disputed is shown in any case, and what is near it
        centre = np.unique(offset[conflict]) if conflict.any() else offset[-1:]
        place = np.clip(np.searchsorted(centre, offset), 0, len(centre) - 1)
        distance = np.minimum(np.abs(offset - centre[place]), np.abs(offset - centre[np.maximum(place - 1, 0)]))
        rows = np.sort(np.argsort(distance, kind="stable")[:MAX_POINTS])
        op, offset, message = op[rows], offset[rows], message[rows]
        verb, conflict = verb[rows], conflict[rows]
    time = history.time[op] / 1e9
    texts = [f"{v}{tables.value(m)}" for v, m in zip(verb, message, strict=True)]
    kinds = [TYPES[t] for t in history.type[op]]
    figure = go.Figure()
    for wrong in (False, True):
        rows = np.flatnonzero(conflict == wrong)
        number = np.unique(message[rows], return_inverse=True)[1]
        figure.add_scattergl(
            x=offset[rows],
            y=time[rows],
            mode="markers+text" if len(op) <= 400 else "markers",
            text=[texts[i] for i in rows],
            textposition="top center",
            textfont={"size": 9},
            customdata=[(texts[i], kinds[i], int(history.index[op[i]])) for i in rows],
            hovertemplate="offset %{x}: %{customdata[0]}<br>%{customdata[1]} #%{customdata[2]} at %{y}<extra></extra>",
            marker={
                "size": 8 if wrong else 5,
                "color": [_PALETTE[i % len(_PALETTE)] for i in number] if wrong else "#9aa5b1",
                "symbol": ["square" if verb[i] == "w" else "circle" for i in rows],
            },
            name="conflicting" if wrong else "agreeing",
        )
    figure.update_layout(xaxis_title="offset", yaxis_title="time (s)", height=520, **_LOOK)
    figure.update_yaxes(autorange="reversed")
    words = (
        "Each operation's view of the log: squares were sent (w), circles polled (r). Time flows downwards. Where an "
        "offset had several values, or a value several offsets, each value has its own colour."
    )
    return f"The log of key {key_name}", words, figure


def _latency(tables: Tables) -> tuple[str, str, Any] | None:
    history = tables.history
    rows = np.flatnonzero(history.invocation >= 0)
    if len(rows) == 0:
        return None
    if len(rows) > MAX_POINTS:
        rare = rows[history.type[rows] != 1]
        rows = np.unique(np.concatenate((rows[:: len(rows) // MAX_POINTS + 1], rare[:MAX_POINTS])))
    began = history.time[history.invocation[rows]].astype(np.float64)
    latency = (history.time[rows] - began) / 1e6
    figure = go.Figure()
    for code, name in enumerate(TYPES):
        mine = history.type[rows] == code
        if mine.any():
            figure.add_scattergl(
                x=began[mine] / 1e9,
                y=latency[mine],
                mode="markers",
                name=name,
                marker={"size": 4, "color": _COLOURS[name]},
            )
    figure.update_layout(xaxis_title="time (s)", yaxis_title="latency (ms)", yaxis_type="log", height=380, **_LOOK)
    return "Latency", "From invocation to completion, by outcome.", figure


def _cycle(title: str, case: Any) -> tuple[str, str, Any]:
    ops = case["ops"]
    angle = np.pi / 2 - 2 * np.pi * np.arange(len(ops)) / len(ops)
    x, y = np.cos(angle), np.sin(angle)
    place = {op: i for i, op in enumerate(ops)}
    figure = go.Figure()
    for edge in case["edges"]:
        a, b = place[edge["from"]], place[edge["to"]]
        bend = 0.12 * np.array([y[a] - y[b], x[b] - x[a]])  # so that two edges between two nodes do not meet
        tail = np.array([x[a], y[a]]) * 0.9 + np.array([x[b], y[b]]) * 0.1 + bend
        head = np.array([x[a], y[a]]) * 0.1 + np.array([x[b], y[b]]) * 0.9 + bend
        colour = "#1f77b4" if edge["type"] == "wr" else "#8c564b"
        figure.add_annotation(
            x=head[0], y=head[1], ax=tail[0], ay=tail[1], xref="x", yref="y", axref="x", ayref="y",
            showarrow=True, arrowhead=3, arrowwidth=2, arrowcolor=colour,
        )  # fmt: skip
        middle = (head + tail) / 2 + bend
        figure.add_annotation(
            x=middle[0], y=middle[1], text=f"{edge['type']} {html.escape(str(edge['key']))}:{edge['value']}",
            showarrow=False, font={"color": colour},
        )  # fmt: skip
    figure.add_scatter(
        x=x, y=y, mode="markers+text", text=[f"#{op}" for op in ops], marker={"size": 38, "color": "#dde5ee"}
    )
    figure.update_layout(height=420, showlegend=False, **_LOOK)
    figure.update_xaxes(visible=False, range=[-1.6, 1.6])
    figure.update_yaxes(visible=False, range=[-1.4, 1.4], scaleanchor="x")
    return title, "; ".join(edge["why"] for edge in case["edges"]), figure


_LOOK: dict[str, Any] = {"template": "plotly_white", "margin": {"l": 60, "r": 20, "t": 20, "b": 50}}
