"""python -m tests.comparison [--write]: the canary beside kminion and strimzi-canary on three brokers, under faults.

All three run at the same time, each with a topic of its own (three partitions, replication factor 3, a probe of each
partition every 100 ms), on brokers with min.insync.replicas=2. After each fault everybody has a while to speak. With
--write the tables go to docs/comparison.md, between its marks. Takes ten minutes; nothing else should run meanwhile.

KMINION and STRIMZI_CANARY are the programs; each is built by `go build` from its tag (github.com/redpanda-data/kminion
v2.3.5: `go build -o kminion .`; github.com/strimzi/strimzi-canary 0.6.0: `go build -o strimzi-canary ./cmd`).
strimzi-canary listens on port 8080, which has to be free.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from canary.lab import Lab, NodeProperties
from canary.lab.jars.pinned_jars import DEFAULT_VERSION
from tests.benchmarks.__main__ import machine
from tests.benchmarks.measuring import MIB, ROOT, number, row
from tests.comparison.faults import CUT, FAULTS, Destroyed, Truth
from tests.comparison.tools import INTERVAL_MS, PARTITIONS, Said, Tool, all_of_them, strimzi
from tests.support import kminion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PAGE: Final = ROOT / "docs" / "comparison.md"
BEGIN, END = "<!-- begin: python -m tests.comparison --write -->\n", "<!-- end -->\n"
SETTLED_S: Final = 40.0
"""How long everybody may speak after a fault: kminion calls lost what is not back after 20 s."""
WARM_S: Final = 20.0


def main() -> int:
    """Compare; return 1 if the canary missed a record or named one that is there, else 0."""
    options = argparse.ArgumentParser(prog="python -m tests.comparison", description=__doc__)
    options.add_argument("--write", action="store_true", help="the tables, into docs/comparison.md")
    write = options.parse_args().write
    if kminion.found() is None or strimzi() is None:
        sys.exit("set KMINION and STRIMZI_CANARY to the programs, or put them into the PATH; see --help")
    with (
        tempfile.TemporaryDirectory(prefix="compared-", ignore_cleanup_errors=True) as place,
        Lab(Path(place) / "lab", properties=NodeProperties({"min.insync.replicas": 2}), die_with_parent=True) as lab,
        all_of_them(Path(place) / "tools", lab.bootstrap) as tools,
    ):
        time.sleep(WARM_S)
        rows, costs, missed = _compared(lab, tools)
    text = "\n".join(_text(rows, costs, tools))
    print(text)
    if write:
        page = PAGE.read_text()
        before, rest = page.split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}{text}\n{END}{rest.split(END)[1]}")
    return int(missed)


def _compared(lab: Lab, tools: Sequence[Tool]) -> tuple[list[str], list[str], bool]:
    """Do every fault; return the rows of both tables, and whether the canary missed or invented a record."""
    rows: list[str] = []
    costs: list[str] = []
    missed = False
    for fault in FAULTS:
        print(f"{time.strftime('%H:%M:%S')} {fault.title}", flush=True)
        before, cpu, began = {tool: tool.listen() for tool in tools}, [tool.cpu_s() for tool in tools], time.monotonic()
        truth = fault.do(lab, [tool.topic for tool in tools])
        if not costs:  # the quiet minute is the first
            costs = list(_costs(tools, before, cpu, time.monotonic() - began))
        time.sleep(SETTLED_S)
        cells: list[str] = []
        for tool in tools:
            after = tool.listen()
            cells.append(_cell(before[tool], after, truth.destroyed.get(tool.topic)))
            if tool.name == "canary" and after:
                missed |= not _right(before[tool] or Said(), after, truth.destroyed.get(tool.topic, {}))
        rows.append(row(fault.title, _truth(truth, tools), *cells))
        print(rows[-1], flush=True)
    return rows, costs, missed


def _costs(tools: Sequence[Tool], before: Mapping[Tool, Said | None], cpu: Sequence[float], s: float) -> Iterator[str]:
    for tool, used in zip(tools, cpu, strict=True):
        first, then = before[tool] or Said(), tool.listen() or Said()
        read = min(then.produced - first.produced, then.consumed - first.consumed)
        yield row(
            f"{tool.name} {tool.version}",
            f"{number(read / s)} a second",
            f"{number((tool.cpu_s() - used) / read * 1000)} CPU-s" if read > 0 else "none was read",
            f"{number(tool.pss() / MIB)} MiB",
        )


def _truth(truth: Truth, tools: Sequence[Tool]) -> str:
    if not truth.destroyed:
        return truth.words
    counted = [_sum(truth.destroyed[tool.topic]) for tool in tools]
    least, most = min(one[0] for one in counted), max(one[1] for one in counted)
    return f"{least} of each tool, acknowledged and read (with what was on its way, {most} at most)"


def _sum(destroyed: Mapping[int, Destroyed]) -> tuple[int, int]:
    return (
        sum(one.sure - one.first for one in destroyed.values()),
        sum(one.end - one.first for one in destroyed.values()),
    )


def _cell(before: Said | None, after: Said | None, destroyed: Mapping[int, Destroyed] | None) -> str:
    """Say what a tool said of one fault."""
    if after is None:
        return "does not answer"
    was = before or Said()
    words: list[str] = []
    if new := set(after.places) - set(was.places):
        found, wrong = _hits(new, destroyed or {})
        words.append(f"{found} lost, by offset" + (f", and {wrong} falsely" if wrong else ""))
    elif not after.places and after.lost is not None and (more := after.lost - (was.lost or 0)):
        words.append(f'{more:.0f} "lost"')
    for what, count in sorted((after.words or {}).items()):
        if what.startswith("per cent"):
            words.append(f"{count:g} {what}")
        elif (new_ones := count - (was.words or {}).get(what, 0)) and what != "lost-write":
            words.append(f"{what}: {new_ones:.0f}")
    if after.produced - was.produced <= 0:
        words.append("nothing acknowledged any more")
    return "; ".join(words) or "nothing"


def _hits(places: set[tuple[int, int, int]], destroyed: Mapping[int, Destroyed]) -> tuple[int, int]:
    """Return how many of some records were destroyed, and how many were not."""
    named = {(partition, offset + i) for partition, offset, size in places for i in range(size)}
    gone = {(partition, offset) for partition, one in destroyed.items() for offset in range(one.first, one.end)}
    return len(named & gone), len(named - gone)


def _right(before: Said, after: Said, destroyed: Mapping[int, Destroyed]) -> bool:
    """Tell whether each record that was surely destroyed is named, and none that was not."""
    new = set(after.places) - set(before.places)
    surely = {p: Destroyed(one.first, one.sure, one.sure) for p, one in destroyed.items()}
    return _hits(new, surely)[0] == _sum(destroyed)[0] and not _hits(new, destroyed)[1]


def _text(rows: Sequence[str], costs: Sequence[str], tools: Sequence[Tool]) -> Iterator[str]:
    names = [f"{tool.name} {tool.version}" for tool in tools]
    yield f"{machine()} Kafka {DEFAULT_VERSION}, three brokers, replication factor 3, min.insync.replicas 2."
    yield (
        f"Each tool: {PARTITIONS} partitions of its own, a probe of each every {INTERVAL_MS} ms, all other settings its"
        f" defaults; all three at the same time. What each says is read {SETTLED_S:g} s after the brokers are whole."
    )
    yield ""
    yield row("fault", "destroyed", *names)
    yield f"|{'---|' * (2 + len(names))}"
    yield from rows
    yield ""
    yield f"The {CUT} are the last that a plain client had read before; what tools say is what their counters grew by."
    yield ""
    yield row("in the quiet minute", "probes read back", "CPU per 1,000 of them", "memory (PSS)")
    yield f"|{'---|' * 4}"
    yield from costs


if __name__ == "__main__":
    sys.exit(main())
