"""One Spark for all tests of this folder, and nights written by someone else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simulation.nights.nights import arrow
from spark_reconcile.job.session import session
from tests.benchmarks import reconcile_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from simulation.nights.oracle import Night

FOLDERS = {"probes": "log", "transactions": "log", "polls": "log", "records": "dump", "bounds": "dump"}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark of a pytest process; a test that stops its own, or wants another master, starts a child."""
    with session("tests", kafka=True, light=True, conf={"spark.sql.shuffle.partitions": "2"}) as running:
        yield running


@pytest.fixture(scope="session")
def night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A night of a hundred thousand probes and a thousand faults, in many files."""
    folder = tmp_path_factory.mktemp("night")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reconcile_data, "FILE_ROWS", 4096)
        reconcile_data.generate(folder, 96_000, levels=1, polls=False)
    return folder


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Write a night to ``log`` and ``dump`` under a folder, one file a table, unless a layout says otherwise."""

    def one_file(table: pa.Table, folder: Path, _name: str) -> None:
        pq.write_table(table, folder / "part-0.parquet")

    def write(night: Night, layout: Callable[[pa.Table, Path, str], Any] = one_file, name: str = "night") -> Path:
        root = tmp_path / name
        for table, parent in FOLDERS.items():
            folder = root / parent / table
            folder.mkdir(parents=True)
            layout(arrow(getattr(night, table), table), folder, table)
        return root

    return write
