"""A small picture of each anomaly: rows of cells, as a log, a producer or a reader has them. SVG, made from text.

A row is a label and cells with spaces between them. A cell is a word (``_`` is a space), with a mark before it: ``!``
wrong, ``~`` gone, ``+`` as it should be, ``?`` unknown; ``.`` is no cell, ``|`` a turn of events. Cells of one column
belong together: in a log a column is an offset.
"""

from collections.abc import Iterator
from html import escape

from canary.anomalies.catalogue import CATALOGUE

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
    rows = [(label, cells.split()) for label, cells in CATALOGUE[name].picture]
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
