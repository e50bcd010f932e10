"""What receipts cost the application, in CPU time of its process: confluent-kafka as it is, and canary_receipts.

Each sends 100,000 records a second to a broker, in turn, in a process of its own (`receipts_producing`). The limit is
that of the default, which gives so many records a second a receipt: less than 3 % CPU, that is 0.03 of a core at that
rate. Its ratio to a bare producer, which does nothing but send and asks for no deliveries, is told beside it without a
limit: of so little, the same part of a core is more than 3 %.
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
    for one, beside in (
        ("receipts", "bare"),
        ("hundred", "bare"),
        ("callback", "bare"),
        ("all", "bare"),
        ("all", "callback"),
    ):
        if one in cpu and beside in cpu:
            ratios = (mine / other for mine, other in zip(cpu[one], cpu[beside], strict=True))
            yield Figure.of(subject, f"{one} / {beside}, CPU", ratios)


if __name__ == "__main__":
    command(measure)
