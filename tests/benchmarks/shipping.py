"""What shipping a sealed segment costs, in CPU time: ``python -m tests.benchmarks.shipping [rounds]``.

Segments as a runner seals them every 45 s, at three rates: a frame of facts each 250 ms, two readers, a round of
questions a second. They are shipped to a directory. What fails is the comparison, in the same run and in turn, with
Arrow's own reading of the same frames, and its sorting and writing of the tables that come of them: without the work of
bringing sends, outcomes and incarnations together. Prints one line of JSON for each rate: medians and spread.
"""

from __future__ import annotations

import gc
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from canary import facts as f
from storage.ledger import Ledger, read_segment
from storage.ledger.files import DISK
from storage.ledger.framing import FACTS
from storage.probe_log.schemas import SORTED_BY
from storage.probe_log.shipping import CARRY_FILE, Shipped, ship_segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RATES = ((300, 3), (300, 30), (3000, 30))
"""Probes a second, and partitions."""
MOST = 4.0
"""Times what Arrow's own reading, sorting and writing takes."""
SECONDS, FRAME_S, ROUNDS = 45, 0.25, 5
TOPIC, MODES = "durability-canary", ("idempotent", "plain")
BEGIN_NS = 1_790_000_000_000_000_000


def frames(rate: int, partitions: int) -> Iterator[list[f.Fact]]:
    """Yield the facts of each frame: what a beat sends is acknowledged and read in the next one."""
    began = [f.GenerationBegan(BEGIN_NS, TOPIC, mode, number, 1, "id") for number, mode in enumerate(MODES, 1)]
    yield [f.RunnerStarted(BEGIN_NS, "canary-0", "bench"), *began]
    sequences: dict[tuple[int, int], int] = {}
    offsets = [0] * partitions
    told: list[tuple[tuple[str, int, int, int, int], int]] = []
    sent = 0
    for frame in range(int(SECONDS / FRAME_S)):
        now = BEGIN_NS + int(frame * FRAME_S * 1e9)
        facts: list[f.Fact] = [f.Tick(now)]
        if frame % 4 == 0:
            facts += [f.WatchAsked(now, frame), f.TopicSeen(now, frame, TOPIC, "id", partitions)]
        for who, offset in told:
            facts.append(f.Acked(now, *who, offset, 2_000_000))
        for consumer in ("read_committed", "read_uncommitted"):
            for (topic, partition, producer_id, generation, sequence), offset in told:
                place = (consumer, consumer, topic, partition, offset, producer_id, generation, sequence)
                facts.append(f.Polled(now, *place, None, now // 1_000_000, now, 3))
        told = []
        while sent < (frame + 1) * rate * FRAME_S:
            number, partition = 1 + sent // partitions % 2, sent % partitions
            sequence = sequences.get((number, partition), 0)
            sequences[number, partition] = sequence + 1
            who = (TOPIC, partition, number, 1, sequence)
            facts.append(f.Sent(now, *who, MODES[number - 1]))
            told.append((who, offsets[partition]))
            offsets[partition] += 1
            sent += 1
        yield facts


def sealed(directory: Path, rate: int, partitions: int) -> Path:
    """Return a sealed segment of a ledger in ``directory``, with the beginning of the next one."""
    with Ledger(directory) as ledger:
        for facts in frames(rate, partitions):
            ledger.append(facts)
        path = ledger.seal(b"state")
        assert path is not None
        ledger.append([f.WatchAsked(BEGIN_NS, 1_000), f.TopicSeen(BEGIN_NS, 1_000, TOPIC, "id", partitions)])
    return path


def shipped(segment: Path, url: Path) -> Shipped:
    """Ship the segment for the first time."""
    return ship_segment(segment, url=str(url), cluster="bench", runner="canary-0")


def plain(segment: Path, tables: dict[str, pa.Table], folder: Path) -> None:
    """Read the frames of a segment, sort its tables and write them as Parquet, in Arrow's own ways."""
    options = pa.ipc.IpcReadOptions(use_threads=False)
    batches = [frame for frame in read_segment(segment).frames if frame.kind == FACTS]
    for frame in batches:
        with pa.ipc.open_stream(DISK.read(segment, frame.start, frame.end - frame.start), options=options) as stream:
            stream.read_all()
    for name, table in tables.items():
        rows = table.sort_by([(key, "ascending") for key in SORTED_BY[name]])
        pq.write_table(rows, folder / f"{name}.parquet", compression="zstd")


def cpu_s(what: Callable[[], Any]) -> float:
    """Return the CPU seconds that ``what`` takes, in all threads."""
    gc.collect()
    start = time.process_time()
    what()
    return time.process_time() - start


def measure(rate: int, partitions: int, rounds: int, folder: Path) -> dict[str, Any]:
    """Return the costs of a segment of one rate."""
    segment = sealed(folder / "ledger", rate, partitions)
    done = shipped(segment, folder / "log")
    tables = {name: pq.read_table(next((folder / "log" / name).rglob("*.parquet"))) for name in SORTED_BY}
    shuffled = {name: table.take(pa.array(range(len(table))[::-1], pa.int64())) for name, table in tables.items()}
    ours, arrows = [], []
    for _ in range(rounds):
        shutil.rmtree(folder / "log")
        (segment.parent / CARRY_FILE).unlink()
        ours.append(cpu_s(lambda: shipped(segment, folder / "log")))
        arrows.append(cpu_s(lambda: plain(segment, shuffled, folder)))
    ratios = [our / arrow for our, arrow in zip(ours, arrows, strict=True)]
    return {
        "rate": rate,
        "partitions": partitions,
        "probes": done.probes,
        "polls": done.polls,
        "cpu_ms": round(1000 * statistics.median(ours), 1),
        "arrow_ms": round(1000 * statistics.median(arrows), 1),
        "of_a_core": round(statistics.median(ours) / SECONDS, 4),
        "times_arrow": round(statistics.median(ratios), 2),
        "spread": [round(min(ratios), 2), round(max(ratios), 2)],
    }


def main(rounds: int) -> int:
    """Measure all rates; return how many cost too much."""
    missed = 0
    for rate, partitions in RATES:
        with tempfile.TemporaryDirectory() as folder:
            figures = measure(rate, partitions, rounds, Path(folder))
        good = figures["times_arrow"] <= MOST
        missed += not good
        sys.stdout.write(json.dumps({**figures, "most": MOST, "good": good}) + "\n")
    return missed


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS))
