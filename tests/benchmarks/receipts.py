"""What receipts cost the application, in CPU time of its process: confluent-kafka as it is, and canary_receipts.

Each sends 100,000 records a second to a broker, in turn, in a process of its own (`receipts_producing`). What fails is
the default, which gives so many records a second a receipt, against a producer that asks for no deliveries at all.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from confluent_kafka.admin import AdminClient, NewTopic

from canary.lab import Lab
from tests.benchmarks.measuring import Figure, command, run
from tests.benchmarks.receipts_producing import TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator

WHAT = ("bare", "receipts", "hundred", "callback", "all")
MOST = 1.03
"""Times the CPU of the bare producer, which does nothing else."""
CORES = 0.03
"""What receipts may take of a core, whatever else the application does."""


def measure(
    rate: int = 100_000, seconds: float = 12.0, rounds: int = 7, what: str = ",".join(WHAT)
) -> Iterator[Figure]:
    """Run all of them in turn."""
    cpu: dict[str, list[float]] = defaultdict(list)
    reached: dict[str, list[float]] = defaultdict(list)
    kept: dict[str, list[float]] = defaultdict(list)
    with (
        tempfile.TemporaryDirectory(prefix="receipts-") as directory,
        Lab(Path(directory) / "lab", brokers=1, die_with_parent=True) as lab,
    ):
        admin = AdminClient({"bootstrap.servers": lab.bootstrap})
        made = admin.create_topics(
            [NewTopic(TOPIC, 6, 1, config={"retention.bytes": "50000000", "segment.bytes": "20000000"})]
        )
        made[TOPIC].result(30)
        for number in range(rounds):
            for one in what.split(","):
                folder = Path(directory) / f"{one}-{number}"
                asked: list[str | Path] = [
                    "-m",
                    "tests.benchmarks.receipts_producing",
                    lab.bootstrap,
                    one,
                    str(rate),
                    str(seconds),
                    folder,
                ]
                took, _ = run(asked)
                cpu[one].append(took["cpu"] / took["sent"] * 1e9)
                reached[one].append(took["sent"] / took["seconds"])
                receipts = sum(pq.read_metadata(file).num_rows for file in folder.rglob("*.parquet"))
                kept[one].append(receipts / (took["seconds"] + 1))
    subject = f"{rate:,}/s"
    for one, each in cpu.items():
        yield Figure.of(subject, f"{one}: CPU a record", each, "ns")
        yield Figure.of(subject, f"{one}: sent", reached[one], "/s")
        if one in {"receipts", "hundred", "all"}:
            yield Figure.of(subject, f"{one}: receipts", kept[one], "/s")
    if {"bare", "receipts"} <= cpu.keys():
        cores = ((mine - bare) * rate / 1e9 for mine, bare in zip(cpu["receipts"], cpu["bare"], strict=True))
        yield Figure.of(subject, "receipts: CPU beyond bare", cores, "cores", most=CORES)
    for one, beside, most in (
        ("receipts", "bare", MOST),
        ("hundred", "bare", None),
        ("callback", "bare", None),
        ("all", "bare", None),
        ("all", "callback", None),
    ):
        if one in cpu and beside in cpu:
            ratios = (mine / other for mine, other in zip(cpu[one], cpu[beside], strict=True))
            yield Figure.of(subject, f"{one} / {beside}, CPU", ratios, most=most)


if __name__ == "__main__":
    command(measure)
