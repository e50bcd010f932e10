"""The kernel, without Spark, against the oracle: any night, cut into ranges in any way."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.generators import reconciliation_oracle as oracle
from tests.generators.reconciliation_memory import reconciled
from tests.generators.reconciliation_nights import bound, nights, probe, record


def differences(got: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """Return what differs, innermost values only."""
    result: dict[str, Any] = {}
    for name in sorted({*got, *expected}, key=str):
        one, other = got.get(name), expected.get(name)
        if isinstance(one, dict) and isinstance(other, dict):
            result |= {f"{name}/{key}": value for key, value in differences(one, other).items()}
        elif one != other:
            result[str(name)] = (one, other)
    return result


@settings(max_examples=300, deadline=None)
@given(night=nights(), cuts=st.sets(st.integers(0, 15), max_size=4), seed=st.integers(0, 99))
def test_any_night_in_any_cut_is_judged_as_the_text_says(night: oracle.Night, cuts: set[int], seed: int) -> None:
    expected = oracle.verdicts(night)
    order = random.Random(seed)  # noqa: S311  # nothing secret
    assert differences(reconciled(night, sorted(cuts), order), expected) == {}


def test_of_two_records_at_one_offset_each_meets_the_other() -> None:
    night = oracle.Night()
    night.bounds = [bound(level, 0, 5) for level in (oracle.RC, oracle.RU)]
    night.probes = [probe(0, None), probe(2, 4)]
    night.records = [record(2, 0, oracle.RC), record(2, 0, oracle.RU)]
    night.records += [record(4, 0, oracle.RU), record(4, 2, oracle.RU)]
    expected = oracle.verdicts(night)
    assert expected["counts"] == {"duplicate": 1, "moved": 1}
    for order in (random.Random(seed) for seed in range(4)):  # noqa: S311  # nothing secret
        assert differences(reconciled(night, [], order), expected) == {}
