"""What another cluster says at the address of the known one counts in no row of the probe log."""

from __future__ import annotations

import pytest

from canary.facts import ClusterMet, ClusterSeen, Fact, GenerationBegan, RunnerStarted, TopicSeen, WatchAsked
from storage.probe_log.carry import Carry
from storage.probe_log.incarnations import CLUSTER, GONE, first_told
from tests.storage.test_probe_log_converting import S, acked, outcomes, polled, run, sent

HERE, THERE = "here", "there"
VOID = ("indeterminate", None, None)


def answered(number: int, topic_id: str = "A", cluster_id: str = HERE) -> list[Fact]:
    at_ns = number * S
    asked = WatchAsked(at_ns, number)
    return [asked, ClusterSeen(at_ns, number, cluster_id, "1", 1), TopicSeen(at_ns, number, "t", topic_id, 1)]


def began(generation: int) -> Fact:
    return GenerationBegan(1, "t", "plain", 7, generation, "A")


STARTED = RunnerStarted(9 * S, "r", "1")
MOVED = ClusterMet(5 * S, "idempotent-1", THERE)
LIFE: list[Fact] = [
    ClusterMet(1, "admin", HERE),
    began(1),
    *answered(1),
    *(sent(0), acked(0)),
    *answered(2),
    *(sent(1), acked(1), polled(1), MOVED),
    *(sent(2), acked(2)),
    *answered(3, "B", THERE),
    *(sent(3), acked(3)),
    STARTED,
    *(sent(4), acked(4)),
    *answered(4),
    began(2),
    *(sent(5, generation=2), acked(5, generation=2)),
    *answered(5),
]
"""A producer is moved after round 2, the watcher before round 3; a late one of the closed clients is heard of after the
start."""
NOT_ASKED_THERE = LIFE.index(ClusterSeen(2 * S, 2, HERE, "1", 1))
"""A segment that begins here does not know that round 2 was asked, so what was acknowledged before stays in doubt."""
EXPECTED = {0: ("acked", 0, "A"), 1: VOID, 2: VOID, 3: VOID, 4: VOID, 5: ("acked", 5, "A")}


@pytest.mark.parametrize("cut", [cut for cut in range(len(LIFE)) if cut != NOT_ASKED_THERE])
def test_what_another_cluster_may_have_acknowledged_is_no_promise_and_its_topics_are_none_of_ours(cut: int) -> None:
    """Wherever a segment is sealed. What the known cluster acknowledges before and after it is promised."""
    first = run(LIFE[:cut], later=first_told([LIFE[cut:]], ["t"], HERE))
    second = run(LIFE[cut:], Carry.decode(first.carry.encode()))
    assert outcomes(first) | outcomes(second) == EXPECTED


def test_a_round_that_was_asked_in_the_segment_before_leaves_its_end_in_doubt() -> None:
    first = run(LIFE[:NOT_ASKED_THERE], later=first_told([LIFE[NOT_ASKED_THERE:]], ["t"], HERE))
    assert outcomes(first) == {0: VOID}


def test_a_record_that_was_read_bears_the_known_cluster_s_tag() -> None:
    assert [row["sequence"] for row in run(LIFE).tables["polls"].to_pylist()] == [1]


def test_a_client_that_is_moved_after_the_seal_leaves_in_doubt_what_no_answer_had_followed() -> None:
    assert first_told([[MOVED, *answered(3)]], ["t"], HERE) == {CLUSTER: GONE}
    assert first_told([[*answered(3), MOVED]], ["t"], HERE) == {"t": "A"}
    assert first_told([[ClusterMet(1, "reread-1", HERE), *answered(3)]], ["t"], HERE) == {"t": "A"}


def test_a_cluster_that_is_met_first_is_the_known_one() -> None:
    met: list[Fact] = [ClusterMet(1, "admin", THERE), *answered(1, cluster_id=THERE), sent(0), acked(0)]
    assert outcomes(run([*met, *answered(2, cluster_id=THERE)])) == {0: ("acked", 0, "A")}
