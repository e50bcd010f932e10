"""The outcome of drills as sentences for people, and as a document for scripts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from canary.drills.report.paging import paged_after_s
from canary.drills.rig.result import Result
from canary.drills.rig.tally import Tally
from canary.drills.rig.verdict import Detected


def word(result: Result) -> str:
    """Return the outcome in a word or two."""
    if result.impossible:
        return "not possible here"
    if result.failed:
        return "FAILED"
    if not _detected(result):
        return "silent"
    return "found late" if any(not one.in_time for one in _detected(result)) else "found"


def sentence(result: Result) -> str:
    """Return the verdict in a sentence."""
    if result.impossible:
        return f"The drill was not performed: {result.impossible}."
    if result.failed:
        count = len(result.complaints)
        return f"The canary failed this drill: {count} thing{'s were' if count > 1 else ' was'} wrong."
    gone = len(result.played.gone) if result.played else 0
    lost = f"{gone} acknowledged record{'s are' if gone > 1 else ' is'} gone. " if gone else ""
    said = " and ".join(f"{one.said.words} after {one.after_s:.1f} s" for one in _detected(result)) or "nothing"
    late = ", later than it should" if word(result) == "found late" else ""
    silent = ", and the control was silent" if result.control is not None else ""
    return f"{lost}The canary said {said}{late}; nothing it said was false{silent}."


def text(result: Result) -> str:
    """Return the outcome as a few lines."""
    head = f"{result.entry.name}: {word(result)} ({result.seconds:.0f} s)"
    if result.impossible:
        return f"{head}: {result.impossible}"
    lines = [detection(one) for one in _detected(result)]
    if (paged_s := paged(result)) is not None:
        lines.append(f"somebody is paged after {paged_s:.0f} s at most, with the alerts as shipped")
    if result.played is not None and result.played.gone:
        lines.append(f"{len(result.played.gone)} acknowledged records are gone by a direct reading")
    if result.played is not None and result.played.reading.tally is not None:
        lines.append(", ".join(f"{value} {name}" for name, value in rows(result.played.reading.tally)))
    if result.played is not None:
        lines += _aligned(result.played.table)
    if result.control is not None and not result.control.complaints:
        lines.append("the control was silent")
    return "\n  ".join([head, *lines, *result.complaints])


def detection(one: Detected) -> str:
    """Return what must be said, and when it was."""
    if one.after_s is None:
        return f"{one.said.words}: not said"
    return f"{one.said.words} after {one.after_s:.1f} s (at most {one.said.within_s:g})"


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]


def rows(tally: Tally) -> list[tuple[str, str]]:
    """Return the table that "Call me maybe: Kafka" ends with: what is counted, and the number."""
    return [
        ("attempted", f"{tally.attempted:,}"),
        ("acknowledged", f"{tally.acked:,}"),
        ("survivors", f"{tally.survivors:,}"),
        ("acknowledged and lost", f"{tally.lost:,}"),
        ("unacknowledged and found", f"{tally.unacked_found:,}"),
        ("ack rate", f"{tally.ack_rate:.4g}"),
        ("loss rate", f"{tally.loss_rate:.4g}"),
    ]


def line(result: Result) -> dict[str, Any]:
    """Return what is kept of a result when many are gathered in one file, a line each."""
    kept = (
        "name",
        "version",
        "outcome",
        "detected",
        "paged_after_at_most_s",
        "control_silent",
        "complaints",
        "seconds",
    )
    whole = document(result)
    return {"at": _time(time.time()), "digest": result.entry.digest, **{name: whole[name] for name in kept}}


def document(result: Result) -> dict[str, Any]:
    """Return the outcome for scripts; times are RFC 3339 UTC, durations seconds."""
    played = result.played
    tally = played.reading.tally if played else None
    return {
        "name": result.entry.name,
        "title": result.entry.drill.title,
        "version": result.entry.drill.stage.version,
        "outcome": word(result),
        "sentence": sentence(result),
        "impossible": result.impossible or None,
        "detected": [
            {"kind": one.said.kind, "after_s": _rounded(one.after_s), "within_s": one.said.within_s}
            for one in _detected(result)
        ],
        "paged_after_at_most_s": _rounded(paged(result)),
        "control_silent": None if result.control is None else not result.control.complaints,
        "complaints": list(result.complaints),
        "tally": None
        if tally is None
        else {
            "attempted": tally.attempted,
            "acked": tally.acked,
            "survivors": tally.survivors,
            "acked_lost": tally.lost,
            "unacked_found": tally.unacked_found,
            "ack_rate": tally.ack_rate,
            "loss_rate": tally.loss_rate,
        },
        "gone": [
            {"topic": place.topic, "partition": place.partition, "offset": place.offset, "identity": who._asdict()}
            for place, who in sorted(played.gone.items() if played else ())
        ],
        "violations": [
            {"kind": one.kind, "severity": one.severity, "at": _time(one.at), "summary": one.summary}
            for one in (played.findings if played else ())
        ],
        "table": [list(row) for row in (played.table if played else ())],
        "timeline": [
            {"at": _time(line.at), "what": line.what, "done": line.done} for line in (played.timeline if played else ())
        ],
        "seconds": round(result.seconds, 1),
    }


def paged(result: Result) -> float | None:
    """Return after how many seconds somebody is paged, at most; None: nobody is."""
    return paged_after_s(result.entry.drill, result.played) if result.played is not None else None


def _detected(result: Result) -> tuple[Detected, ...]:
    return result.verdict.detected if result.verdict is not None else ()


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
