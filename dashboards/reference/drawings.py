"""A small picture of each anomaly: rows of cells, as a log, a producer or a reader has them. SVG, made from text.

A row is a name and cells with spaces between them. A cell is a word (``_`` is a space), with a mark before it:
``!`` wrong, ``~`` gone, ``+`` as it should be, ``?`` nobody can say; ``.`` is no cell, ``|`` a turn of events.
Cells of one column belong together: in a log a column is an offset.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from canary.anomalies.catalogue import CATALOGUE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Row = tuple[str, str]

PICTURES: Final[Mapping[str, tuple[Row, ...]]] = {
    "lost-write": (("acknowledged", "+a +b +c +d"), ("the log", "a b ~c d"), ("a reader", "a b . d")),
    "unseen": (("acknowledged", "+a +b +c +d"), ("the log", "a b c d"), ("readers, so far", "a b ?c ?d")),
    "duplicate": (("sent", "+a +b +c"), ("the log", "a b c !b")),
    "inconsistent-offsets": (("offset", "7 8 9"), ("acknowledged", "+a +b !c"), ("a reader", "a b !x")),
    "poll-skip": (("the log", "a b c d e"), ("first poll", "a b . . ."), ("next poll", ". . !· d e")),
    "nonmonotonic-poll": (("the log", "a b c d"), ("first poll", "a b c ."), ("next poll", ". !b c d")),
    "int-poll-skip": (("the log", "a b c d"), ("one poll", "a !· c d")),
    "int-nonmonotonic-poll": (("the log", "a b c d"), ("one poll", "a b !a c")),
    "nonmonotonic-send": (("sent, in order", "1 2"), ("the log", "!2 !1")),
    "int-nonmonotonic-send": (("one transaction sends", "1 2 3"), ("the log", "1 !3 !2")),
    "int-send-skip": (("one transaction sends", "1 . 2"), ("the log", "1 x 2")),
    "reorder": (("sequence", "4 5 6 7"), ("the log", "4 !6 !5 7")),
    "corrupt": (("sent", "+a +b +c"), ("the log", "a !b* c"), ("checksum", "right !wrong right")),
    "phantom": (("sent", "+a +b ."), ("the log", "a b !z")),
    "truncation": (("the log, before", "a b c d e"), ("the log, after", "a b c ~d ~e")),
    "offset-regression": (("end offset", "102 103 104 | !101"),),
    "early-expiry": (("acknowledged", "+a +b +c +d"), ("the log", "~a ~b c d"), ("retention", "day day day day")),
    "G1a": (("a transaction", "a b abort"), ("the log", "a b |"), ("read_committed", "!a !b .")),
    "precommitted-read": (
        ("a transaction", "a b . commit"),
        ("read_committed", ". . !a ."),
    ),
    "fractured-transaction": (("one transaction", "a b commit"), ("partition 0", "a . |"), ("partition 1", ". ~b |")),
    "zombie-write": (("generation 1", "a . . !b"), ("generation 2", ". fences c ."), ("the log", "a . c !b")),
    "G0": (("partition 0", "T1 T2"), ("partition 1", "!T2 !T1")),
    "G1c": (("T1", "writes_a reads_b"), ("T2", "reads_a writes_b")),
    "committed-offset-regression": (("a group committed", "40 41 42 | !17"),),
    "offline-partition": (
        ("broker 1", "leader | ~gone ~gone"),
        ("broker 2", "in_sync | ~gone ~gone"),
        ("leader", "1 | !none !none"),
    ),
    "isr-of-one": (
        ("broker 1", "a b c d"),
        ("broker 2", "a | ~· ~·"),
        ("broker 3", "a | ~· ~·"),
        ("ISR", "1,2,3 | !1 !1"),
    ),
    "under-min-isr": (
        ("ISR", "1,2,3 1,2 | !1"),
        ("min.insync.replicas", "2 2 | 2"),
        ("writes", "+yes +yes | !refused"),
    ),
    "isr-below-half": (("replicas", "1 2 3 4 5"), ("in sync", "1 2 ~3 ~4 ~5")),
    "under-replicated": (("replicas", "1 2 3"), ("in sync", "1 2 ~3")),
    "unclean-election": (
        ("broker 1, ISR", "a b c | ~gone"),
        ("broker 2, behind", "a . . | !leads"),
        ("the log, after", "a ~b ~c | ."),
    ),
    "leader-epoch-regression": (("leader epoch", "7 8 9 | !4"),),
    "topic-recreated": (("topic id", "q7V q7V | !x9K"), ("the log", "a b | ~a ~b")),
    "another-cluster": (("cluster.id", "MkU MkU | !Zz9"),),
    "clock-skew": (("our clock", "12:00 12:01 12:02"), ("timestamps", "12:00 !11:31 !11:32")),
    "blind": (("probes", "+a +b | !refused !refused"),),
    "memory-lost": (("acknowledged", "+a +b +c | +d"), ("the ledger", "a ~b ~c | d"), ("judged", "a ?b ?c | d")),
    "stalled": (("the log", "a b c d e"), ("a reader's position", "a b !here . .")),
}
"""By anomaly."""

_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.name { fill: #59636e }
rect { rx: 4px; stroke-width: 1.5; fill: #f6f8fa; stroke: #8c959f }
.ok rect { fill: #dafbe1; stroke: #1a7f37 }
.bad rect { fill: #ffebe9; stroke: #cf222e; stroke-width: 2.5 }
.gone rect { fill: none; stroke: #8c959f; stroke-dasharray: 4 3 }
.gone text { fill: #6e7781; text-decoration: line-through }
.open rect { fill: #fff8c5; stroke: #9a6700; stroke-dasharray: 4 3 }
line { stroke: #cf222e; stroke-width: 2; stroke-dasharray: 2 3 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .name, .gone text { fill: #9198a1 }
  rect { fill: #161b22; stroke: #6e7681 }
  .ok rect { fill: #12261e; stroke: #3fb950 } .bad rect { fill: #2d1214; stroke: #f85149 }
  .open rect { fill: #272115; stroke: #d29922 } line { stroke: #f85149 }
}
"""
_MARKS = {"!": "bad", "~": "gone", "+": "ok", "?": "open"}
_NAME, _GAP, _HEIGHT, _LINE = 160, 8, 28, 40


def drawing(name: str) -> str:
    """Return the picture of an anomaly.

    Raises:
        KeyError: there is none.
    """
    rows = [(label, cells.split()) for label, cells in PICTURES[name]]
    columns = max(len(cells) for _, cells in rows)
    widths = [max((_width(cells[at]) for _, cells in rows if at < len(cells)), default=0) for at in range(columns)]
    lefts = [_NAME + sum(widths[:at]) + _GAP * at for at in range(columns)]
    width = lefts[-1] + widths[-1] + _GAP
    height = _LINE * len(rows) + _GAP
    entry = CATALOGUE[name]
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
            f' role="img" aria-labelledby="t d">'
        ),
        f'<title id="t">{escape(entry.title)}</title>',
        f'<desc id="d">{escape(entry.meaning)}</desc>',
        f"<style>{_STYLE}</style>",
    ]
    for number, (label, cells) in enumerate(rows):
        top = _GAP + number * _LINE
        parts.append(f'<text class="name" x="{_NAME - 12}" y="{top + 19}" text-anchor="end">{escape(label)}</text>')
        for at, cell in enumerate(cells):
            parts.extend(_cell(cell, lefts[at], top, widths[at]))
    return "\n".join([*parts, "</svg>", ""])


def _cell(cell: str, left: int, top: int, width: int) -> Iterator[str]:
    if cell == ".":
        return
    if cell == "|":
        middle = left + width / 2
        yield f'<line x1="{middle}" y1="{top - 4}" x2="{middle}" y2="{top + _HEIGHT + 4}"/>'
        return
    kind = _MARKS.get(cell[0], "")
    words = escape((cell[1:] if kind else cell).replace("_", " "))
    yield (
        f'<g class="{kind}"><rect x="{left}" y="{top}" width="{width}" height="{_HEIGHT}"/>'
        f'<text x="{left + width / 2}" y="{top + 19}" text-anchor="middle">{words}</text></g>'
    )


def _width(cell: str) -> int:
    return 14 if cell == "|" else max(32, 9 * len(cell.lstrip("!~+?")) + 14)
