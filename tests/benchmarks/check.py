"""What checking a history costs, against what parsing it with orjson costs in the same process.

Of both shapes of histories: sends and polls, and transactions of both. The memory is what the process has grown by.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from simulation.histories.wild import seeded
from tests.benchmarks.measuring import Figure, command, run

if TYPE_CHECKING:
    from collections.abc import Iterator

RATIO, MEMORY, LINEAR = 6.0, 4.0, 12.0
PROCESSES, KEYS = 10, 8


def write_history(path: Path, operations: int, *, transactions: bool) -> None:  # noqa: C901, PLR0912  # one loop
    """Write a correct history of about so many operations: sends and polls, or transactions of one to four of both."""
    random = seeded(1)
    keys = [str(key) for key in range(KEYS)]
    logs: dict[str, list[int]] = {key: [] for key in keys}
    positions = {(process, key): 0 for process in range(PROCESSES) for key in keys}
    open_: dict[int, tuple[str, list[list[object]]]] = {}
    now = value = 0
    with path.open("wb") as file:
        for index in range(operations):
            now += random.randrange(1_000, 200_000)
            process = random.randrange(PROCESSES)
            if process not in open_:
                planned: list[list[object]] = []
                for _ in range(random.randrange(1, 5) if transactions else 1):
                    if random.random() < 0.5:
                        planned.append(["poll"])
                    else:
                        value += 1
                        planned.append(["send", random.choice(keys), value])
                f = "txn" if transactions else str(planned[0][0])
                open_[process] = (f, planned)
                done, kind = planned, "invoke"
            else:
                f, planned = open_.pop(process)
                done, kind = [], "ok"
                sends: list[list[object]] = []
                for micro in planned:
                    if micro[0] == "send":
                        log = logs[str(micro[1])]
                        sends.append(micro)
                        done.append(["send", micro[1], [len(log) + len(sends) - 1, micro[2]]])
                    else:
                        polled: dict[str, list[list[int]]] = {}
                        for key in random.sample(keys, 3):
                            start = positions[process, key]
                            end = min(len(logs[key]), start + random.randrange(1, 30))
                            if end > start:
                                polled[key] = [[offset, logs[key][offset]] for offset in range(start, end)]
                                positions[process, key] = end
                        done.append(["poll", polled])
                counts: dict[str, int] = {}
                for micro in done:
                    if micro[0] == "send":
                        key = str(micro[1])
                        offset = len(logs[key])
                        counts[key] = counts.get(key, 0) + 1
                        sent = micro[2]
                        assert isinstance(sent, list)
                        logs[key].append(sent[1])
                        sent[0] = offset
            op = {"index": index, "time": now, "process": process, "type": kind, "f": f, "value": done}
            file.write(orjson.dumps(op) + b"\n")


def one(path: Path) -> dict[str, float]:
    """Return CPU seconds of parsing and of checking, the better of two of each, and the bytes that checking added."""
    from canary.anomalies.offline import check  # noqa: PLC0415  # not in the parent
    from canary.history.reading import load  # noqa: PLC0415

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    parsed, checked = [], []
    for _ in range(2):  # whoever else uses the machine disturbs one more than the other
        start = time.process_time()
        with path.open("rb") as file:
            for line in file:
                orjson.loads(line)
        parsed.append(time.process_time() - start)
        start = time.process_time()
        with path.open("rb") as file:
            check(load(file, str(path)))
        checked.append(time.process_time() - start)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"orjson_s": min(parsed), "check_s": min(checked), "memory": grown * 1024}


def measure(operations: int = 1_000_000) -> Iterator[Figure]:
    """Measure both shapes at ``operations`` and a tenth of them, each in a process of its own."""
    with tempfile.TemporaryDirectory() as directory:
        for transactions in (False, True):
            path = Path(directory) / "history.jsonl"
            costs = []
            for count in (operations // 10, operations):
                write_history(path, count, transactions=transactions)
                costs.append(run(["-m", "tests.benchmarks.check", "--one", str(path)])[0])
            few, many = costs
            subject = f"{operations:,} {'operations in transactions' if transactions else 'sends and polls'}"
            size = path.stat().st_size
            yield Figure(subject, "CPU", many["check_s"], "CPU-s")
            yield Figure(subject, "CPU over orjson's", many["check_s"] / many["orjson_s"], most=RATIO)
            yield Figure(subject, "CPU over that of a tenth", many["check_s"] / few["check_s"], most=LINEAR)
            yield Figure(subject, "memory over the file", many["memory"] / size, most=MEMORY)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        sys.stdout.write(json.dumps(one(Path(sys.argv[2]))))
    else:
        command(measure)
