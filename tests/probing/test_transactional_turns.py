"""Where transactions write and which of them are aborted: by their number, and nothing is left out."""

from __future__ import annotations

import pytest

from canary.probing.transactional import _SAME_TURNS
from canary.workloads.transactional import TransactionalSettings


@pytest.mark.dear("thousands of transactions of each size")
@pytest.mark.parametrize("partitions", [1, 2, 3, 5, 6, 10, 12, 30])
@pytest.mark.parametrize("percent", [5, 7, 10, 50])
def test_every_partition_and_every_coordinator_meets_commits_and_aborts(partitions: int, percent: int) -> None:
    settings = TransactionalSettings(abort_percent=percent)
    turns = [settings.turn(number, range(partitions)) for number in range(13 * _SAME_TURNS * 100 // percent)]
    for aborted in (True, False):
        assert {p for chosen, abort in turns if abort == aborted for p in chosen} == set(range(partitions))
        for sessions in range(1, 13):
            met = {(n + n // _SAME_TURNS) % sessions for n, (_, abort) in enumerate(turns) if abort == aborted}
            assert met == set(range(sessions))
    assert sum(abort for _, abort in turns) == pytest.approx(len(turns) * percent / 100, rel=0.03)
    assert all(chosen == sorted(set(chosen)) and len(chosen) == min(2, partitions) for chosen, _ in turns)


@pytest.mark.parametrize("percent", [0, 100])
def test_none_or_all_are_aborted_where_that_is_asked_for(percent: int) -> None:
    settings = TransactionalSettings(abort_percent=percent)
    assert {settings.turn(number, range(30))[1] for number in range(1000)} == {percent == 100}
