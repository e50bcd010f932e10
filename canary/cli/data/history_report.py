"""What ``canary check`` found, for people on a terminal and for machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import orjson
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from canary.anomalies.anomaly import Severity
from canary.anomalies.catalogue import CATALOGUE
from canary.anomalies.offline import Case, Verdict, metrics
from canary.anomalies.policy import severity
from canary.history.columns import UNKNOWN, History
from canary.history.operation import FUNCTIONS, TYPES

if TYPE_CHECKING:
    from spark_reconcile.history.check import SparkVerdict

FIRST_CASES = 3
"""How many cases of each anomaly a terminal shows."""

_SHOWN_VALUES = 12
_STYLES = {"critical": "bold red", "warning": "yellow", "info": "cyan"}


def severity_of(name: str) -> Severity:
    """Return the severity of what was found in a whole history."""
    return severity(name, finished=True)


def sentence(verdict: Verdict | SparkVerdict) -> str:
    """Return the verdict in one sentence."""
    if not verdict.operations:
        return "NOT VALID: the history is empty, so it proves nothing."
    if not verdict.confirmed:
        return "NOT VALID: no operation was ok, so the history proves nothing."
    if verdict.valid:
        allowed = ", ".join(verdict.anomalies)
        return f"VALID: nothing but what the protocol allows ({allowed})." if allowed else "VALID: no anomaly."
    wrong = [name for name in verdict.anomalies if name not in verdict.allowed]
    worst = min(wrong, key=lambda name: ("critical", "warning", "info").index(severity_of(name)))
    return f"NOT VALID: {', '.join(wrong)}. {CATALOGUE[worst].title}: {CATALOGUE[worst].meaning}"


def show(verdict: Verdict | SparkVerdict, console: Console | None = None) -> None:
    """Print the verdict, a table of counts and the first cases with their operations."""
    console = console or Console(highlight=False)
    console.print(f"[bold {'green' if verdict.valid else 'red'}]{escape(sentence(verdict))}[/]")
    history: History | None = None
    if isinstance(verdict, Verdict):
        history = verdict.tables.history
        keys, source = len(history.keys), history.source
    else:
        keys, source = verdict.keys, verdict.source
    console.print(f"{verdict.operations:,} operations, {keys:,} keys, {source}", style="dim")
    if not verdict.anomalies:
        return
    table = Table("anomaly", "cases", "severity", "what it means", title=None, expand=False)
    table.columns[1].justify = "right"
    for name, cases in verdict.anomalies.items():
        entry = CATALOGUE[name]
        weight = "allowed" if name in verdict.allowed else severity_of(name)
        table.add_row(name, f"{len(cases):,}", weight, entry.meaning, style=_STYLES.get(weight, "dim"))
    console.print(table)
    for name, cases in verdict.anomalies.items():
        console.print(f"\n[bold]{name}[/] ({min(FIRST_CASES, len(cases))} of {len(cases):,})")
        for case in cases[:FIRST_CASES]:
            console.print(Padding(escape(one_line(case)), (0, 0, 0, 2)))
            if history is None:
                continue
            for row in rows_of(history, case):
                console.print(Padding(escape(describe(history, row, case)), (0, 0, 0, 6)), style="dim")
        if name not in verdict.allowed:
            console.print(f"  [italic]First: {escape(CATALOGUE[name].do_first)}[/]")


def write_json(verdict: Verdict | SparkVerdict, file: BinaryIO, *, extras: bool = False) -> None:
    """Write the verdict as one JSON object (CONTRACTS "History"; with ``extras`` ANOMALIES Part I, last lines)."""
    file.write(b'{"valid":' + orjson.dumps(verdict.valid) + b',"anomalies":{')
    for number, (name, cases) in enumerate(verdict.anomalies.items()):
        file.write(b"," * bool(number) + orjson.dumps(name) + b":")
        _write_list(cases, file)
    file.write(b'},"counts":' + orjson.dumps(verdict.counts))
    file.write(b',"operations":' + orjson.dumps(verdict.operations))
    if extras and isinstance(verdict, Verdict):
        tables = verdict.tables
        lag = metrics.realtime_lag(tables.history)
        file.write(b',"realtime_lag":')
        _write_list(lag, file)
        file.write(b',"worst_realtime_lag":' + orjson.dumps(metrics.worst_realtime_lag(lag)) + b',"unseen":')
        _write_list(metrics.unseen_series(tables), file)
        file.write(b',"consume_counts":' + orjson.dumps(metrics.consume_counts(tables)))
        file.write(b',"version_orders":' + orjson.dumps(metrics.version_orders(tables)))
    file.write(b"}\n")
    file.flush()


def _write_list(items: Iterable[Mapping[str, Any]], file: BinaryIO) -> None:
    file.write(b"[")
    file.writelines(b"," * bool(number) + orjson.dumps(item) for number, item in enumerate(items))
    file.write(b"]")


def rows_of(history: History, case: Case) -> list[int]:
    """Return the rows of the operations that a case names, in order, each once."""
    found: dict[int, None] = {}
    for name in ("writer", "op", "ops", "reader", "max_read"):
        named = case.get(name)
        for index in named if isinstance(named, list) else [named]:
            if index is not None:
                found[int(np.searchsorted(history.index, index))] = None
    return sorted(found)


def describe(history: History, row: int, case: Case) -> str:
    """Return an operation as one line for people; of its polls only what is near to what ``case`` is about."""
    key = case["key"] if isinstance(case.get("key"), str) else None
    focus = [case.get("value"), *case.get("values", ()), *(edge["value"] for edge in case.get("edges", ()))]
    sends = slice(*np.searchsorted(history.send_op, [row, row + 1]))
    segments = slice(*np.searchsorted(history.segment_op, [row, row + 1]))
    parts = []
    for place in range(sends.start, sends.stop):
        name, value = history.keys[history.send_key[place]], history.value(history.send_value[place])
        parts.append(f"send {name} {value!r}@{_offset(history.send_offset[place])}")
    for segment in range(segments.start, segments.stop):
        name = history.keys[history.segment_key[segment]]
        length = int(history.segment_length[segment])
        if key is not None and name != key:
            continue
        start = int(history.segment_start[segment])
        values = [history.value(code) for code in history.read_value[start : start + length]]
        at = next((place for place, value in enumerate(values) if value in focus), 0)
        low = max(0, min(at - _SHOWN_VALUES // 3, length - _SHOWN_VALUES))
        high = min(length, low + _SHOWN_VALUES)
        shown = [f"{values[i]!r}@{_offset(history.read_offset[start + i])}" for i in range(low, high)]
        before, after = f"… {low} … " * bool(low), f" … {length - high} …" * (high < length)
        parts.append(f"poll {name} [{before}{', '.join(shown)}{after}]")
    function = FUNCTIONS[history.f[row]] if history.f[row] < len(FUNCTIONS) else "other"
    return (
        f"#{history.index[row]} line {history.line[row]}, process {history.process[row]}, "
        f"{TYPES[history.type[row]]} {function} at {history.time[row] / 1e9:.3f} s: {'; '.join(parts)}"
    )


def _offset(offset: int) -> str:
    return "?" if offset == UNKNOWN else str(offset)


def one_line(case: Case) -> str:
    """Return the evidence of a case as one line for people."""
    if "edges" in case:
        return "; ".join(edge["why"] for edge in case["edges"])
    return ", ".join(f"{name.replace('_', ' ')} {_short(value)}" for name, value in case.items())


def _short(value: object) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= 160 else text[:157] + "..."
