"""What checking a history costs, against what parsing it costs: ``python -m tests.benchmarks.check [operations]``.

Prints one line of JSON for each shape of history and fails when a target is missed: at most 6 times the CPU that orjson
takes for the same file in the same run, at most 4 times the file in memory, and a tenth of the operations at least a
twelfth of the time.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson

from tests.generators.wild import seeded

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


def measure(path: Path) -> dict[str, float]:
    """Return CPU seconds of parsing and of checking, the better of two of each, and this process's highest memory."""
    from canary.anomalies.offline import check  # noqa: PLC0415  # not in the parent
    from canary.history.reading import load  # noqa: PLC0415

    parsed, checked, found = [], [], 0
    for _ in range(2):  # whoever else uses the machine disturbs one more than the other
        start = time.process_time()
        with path.open("rb") as file:
            for line in file:
                orjson.loads(line)
        parsed.append(time.process_time() - start)
        start = time.process_time()
        with path.open("rb") as file:
            found = len(check(load(file, str(path))).anomalies)
        checked.append(time.process_time() - start)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = path.stat().st_size / 2**20
    return {"orjson_s": min(parsed), "check_s": min(checked), "file_mib": size, "memory_mib": memory, "found": found}


def main(operations: int) -> int:
    """Measure both shapes at ``operations`` and a tenth of them, each in a process of its own."""
    missed = 0
    with tempfile.TemporaryDirectory() as directory:
        for transactions in (False, True):
            figures = []
            for count in (operations // 10, operations):
                path = Path(directory) / "history.jsonl"
                write_history(path, count, transactions=transactions)
                command = [sys.executable, "-m", "tests.benchmarks.check", "--measure", str(path)]
                out = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # ourselves
                figures.append({"operations": count, "transactions": transactions, **json.loads(out)})
                sys.stdout.write(json.dumps(figures[-1]) + "\n")
            small, large = figures
            ratio, growth = large["check_s"] / large["orjson_s"], large["check_s"] / small["check_s"]
            held = large["memory_mib"] / large["file_mib"]
            good = ratio <= RATIO and growth <= LINEAR and held <= MEMORY
            figures_of = f"{ratio:.2f} times orjson, growth {growth:.1f}, memory {held:.1f} times the file"
            sys.stdout.write(f"{figures_of}: {'good' if good else 'MISSED'}\n")
            missed += not good
    return missed


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        sys.stdout.write(json.dumps(measure(Path(sys.argv[2]))))
    else:
        sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000))
