"""The outcome of drills for people and for scripts."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from canary.drills.rig.result import Result
from canary.drills.rig.verdict import Detected


def word(result: Result) -> str:
    """Return the outcome in a word or two."""
    if result.impossible:
        return "not possible here"
    if result.failed:
        return "FAILED"
    late = [one for one in (result.verdict.detected if result.verdict else ()) if not one.in_time]
    return "found late" if late else "found"


def text(result: Result) -> str:
    """Return the outcome as a few lines."""
    lines = [f"{result.entry.name}: {word(result)} ({result.seconds:.0f} s)"]
    if result.impossible:
        return f"{lines[0]}: {result.impossible}"
    if result.verdict is not None:
        lines += [f"  {_detected(one)}" for one in result.verdict.detected]
    if result.played is not None and result.played.gone:
        lines.append(f"  {len(result.played.gone)} acknowledged records are gone by a direct reading")
    if result.played is not None:
        lines += [f"  {line}" for line in _aligned(result.played.table)]
    if result.control is not None and not result.control.complaints:
        lines.append("  the control was silent")
    lines += [f"  {one}" for one in result.complaints]
    return "\n".join(lines)


def document(result: Result) -> dict[str, Any]:
    """Return the outcome for scripts; times are RFC 3339 UTC, durations seconds."""
    played, verdict = result.played, result.verdict
    return {
        "name": result.entry.name,
        "version": result.entry.drill.stage.version,
        "outcome": word(result),
        "impossible": result.impossible or None,
        "detected": [
            {"kind": one.said.kind, "after_s": one.after_s, "within_s": one.said.within_s}
            for one in (verdict.detected if verdict else ())
        ],
        "control_silent": None if result.control is None else not result.control.complaints,
        "complaints": list(result.complaints),
        "gone": [
            {"topic": place.topic, "partition": place.partition, "offset": place.offset, "identity": who._asdict()}
            for place, who in sorted(played.gone.items() if played else ())
        ],
        "violations": [
            {"kind": one.kind, "severity": one.severity, "at": _time(one.at), "summary": one.summary}
            for one in (played.findings if played else ())
        ],
        "table": [list(row) for row in (played.table if played else ())],
        "timeline": [{"at": _time(at), "what": what} for at, what in (played.timeline if played else ())],
        "seconds": round(result.seconds, 1),
    }


def page(results: Sequence[Result]) -> str:
    """Return a page of HTML."""
    raise NotImplementedError


def _detected(one: Detected) -> str:
    if one.after_s is None:
        return f"{one.said.kind}: not said"
    return f"{one.said.kind} after {one.after_s:.1f} s (at most {one.said.within_s:g})"


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
