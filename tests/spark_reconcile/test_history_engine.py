"""``canary check --engine spark`` gives the answers of the local engine, however the history is cut."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from canary.anomalies.offline import Options, check
from canary.history.errors import HistoryError
from canary.history.reading import load
from simulation.histories.injections import INJECTIONS
from simulation.histories.simulator import simulate
from simulation.histories.wild import seeded, wild_history
from spark_reconcile.history.check import check_file
from tests.support.seeds import cases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession


class Inline:
    """As much of a Spark session as the engine needs, in this process."""

    class _Context:
        def __init__(self, items: Sequence[Any] = ()) -> None:
            self._items = items

        def parallelize(self, items: Sequence[Any], _: int) -> Inline._Context:
            return Inline._Context(items)

        def map(self, task: Callable[[Any], Any]) -> Inline._Context:
            return Inline._Context([task(item) for item in self._items])

        def collect(self) -> Sequence[Any]:
            return self._items

        def toLocalIterator(self) -> Iterator[Any]:  # noqa: N802  # Spark's name
            return iter(self._items)

        def setJobGroup(self, group: str, description: str) -> None:  # noqa: N802  # Spark's name
            """Group nothing: there is no page to show it on."""

        def broadcast(self, value: Any) -> Any:
            return type("Broadcast", (), {"value": value})

    sparkContext = _Context()  # noqa: N815  # Spark's name


def plain(anomalies: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return cases for comparison, without their order; of a cycle its operations only."""
    return {
        name: sorted(repr(sorted(case["ops"]) if "edges" in case else sorted(case.items())) for case in cases)
        for name, cases in anomalies.items()
    }


def normal(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return an unseen case without the order of its keys."""
    return {k: sorted((a, sorted(map(repr, b)) if isinstance(b, list) else b) for a, b in v.items())
            if isinstance(v, dict) else v for k, v in case.items()}  # fmt: skip


def compare(
    history: list[dict[str, Any]], path: Path, spark: Any, *, stretch: int, buckets: int, ww: bool = True
) -> None:
    text = b"".join(orjson.dumps(op) + b"\n" for op in history)
    path.write_bytes(text)
    options = Options(ww_deps=ww)
    local = check(load(io.BytesIO(text), str(path)), options)
    with check_file(path, options, spark=spark, stretch=stretch, buckets=buckets) as verdict:
        assert verdict.counts == local.counts
        assert verdict.valid == local.valid
        assert verdict.operations == local.operations
        ours, theirs = dict(verdict.anomalies), dict(local.anomalies)
        assert [normal(c) for c in ours.pop("unseen", ())] == [normal(c) for c in theirs.pop("unseen", ())]
        for name in ("G0", "G1c"):
            assert [len(c["ops"]) for c in ours.pop(name, ())] == [len(c["ops"]) for c in theirs.pop(name, ())]
        if "inconsistent-offsets" in ours and any(
            isinstance(v, str) for c in ours["inconsistent-offsets"] for v in c["values"]
        ):
            return  # which of them counts is a choice, made by order of appearance
        assert plain(ours) == plain(theirs)


def test_arbitrary_histories_are_judged_alike(tmp_path: Path) -> None:
    for seed in cases("histories for Spark", 40):
        random = seeded(seed)
        history = wild_history(random)
        stretch, buckets = random.randint(50, 3000), random.randint(1, 5)
        compare(history, tmp_path / "h", Inline(), stretch=stretch, buckets=buckets, ww=seed % 2 == 0)


def test_broken_lives_are_judged_alike(tmp_path: Path) -> None:
    for seed in cases("lives for Spark", 6):
        history = simulate(seed, inject=seeded(seed).sample(sorted(INJECTIONS), 4)).history()
        compare(history, tmp_path / "h", Inline(), stretch=7_000, buckets=3)


def test_taking_keys_alone_proves_nothing_to_either(tmp_path: Path) -> None:
    history = [
        {"index": n, "time": n, "process": 0, "type": type_, "f": "assign", "value": ["x"]}
        for n, type_ in enumerate(("invoke", "ok"))
    ]
    compare(history, tmp_path / "h", Inline(), stretch=1000, buckets=2)


@pytest.mark.spark
def test_spark_itself_judges_alike(spark: SparkSession, tmp_path: Path) -> None:
    history = simulate(1, inject=["lost-write", "G1c", "inconsistent-offsets"]).history()
    compare(history, tmp_path / "h", spark, stretch=20_000, buckets=2)


def test_what_is_wrong_is_said_of_the_same_line(tmp_path: Path) -> None:
    for seed in cases("histories with a wrong line", 20):
        what_is_wrong_is_said_of_the_same_line(seed, tmp_path / "h")


def what_is_wrong_is_said_of_the_same_line(seed: int, path: Path) -> None:
    random = seeded(seed)
    lines = [orjson.dumps(op) for op in wild_history(random)]
    at = random.randrange(len(lines))
    match seed % 4:
        case 0:
            lines[at] = lines[at][:-2]
        case 1:
            del lines[at]
        case 2:
            lines[at] = lines[at].replace(b'"f":', b'"g":')
        case _:
            lines.insert(at, lines[random.randrange(len(lines))])
    text = b"\n".join(lines)
    path.write_bytes(text)
    try:
        load(io.BytesIO(text), str(path))
    except HistoryError as error:
        expected = error
    else:
        return  # it happens to be a history still
    with (
        pytest.raises(HistoryError) as raised,
        check_file(path, Options(), spark=Inline(), stretch=random.randint(50, 500), buckets=2),
    ):
        pass
    assert raised.value.line == expected.line


def test_edn_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "h"
    path.write_text("[{:index 0}]")
    with pytest.raises(HistoryError, match="JSON Lines only"), check_file(path, Options(), spark=Inline()):
        pass
