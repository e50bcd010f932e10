"""Which of the ids that brokers give of a watched topic is its own: what counts, and for how long."""

from __future__ import annotations

import pytest

from canary import facts as f
from canary.anomalies.online.topology.state import Watched
from canary.anomalies.online.topology.watched_incarnations import doubted
from tests.anomalies.online.test_lineages import told
from tests.anomalies.online.test_topology import Cluster, cluster, listed, stays
from tests.anomalies.online.test_vanished import asked, not_listed


def watching() -> Cluster:
    c = cluster()
    c.tracker.state.topology.watched = Watched(["orders"])
    listed(c, 100)
    return c


def severities(c: Cluster) -> list[tuple[str, str]]:
    return [(v.kind, v.severity) for v in c.open.values()]


def test_an_id_of_before_is_said_to_be_one() -> None:
    c = watching()
    last_ns = c.now_ns
    stays(c, 5, 0, "o-2")
    (found,) = c.open.values()
    assert found.happened_after_ns == last_ns, "when the former one was given last"
    listed(c, 100)
    assert [(one.other_id, one.other_is_former) for one in doubted(c.tracker.state)] == [("o-1", True)]
    stays(c, 100, 0, "o-1")
    assert [v.summary for v in c.open.values()] == [
        "topic orders was deleted and made again: 100 records were in it",
        "topic orders has a former id again: 5 records were in it",
    ]


def test_an_answer_without_an_id_is_no_other_topics() -> None:
    c = watching()
    for _ in range(40):
        c.round()
        told(c, 0, 0, 100, topic_id=None)
    assert (list(doubted(c.tracker.state)), c.said) == ([], [])


def test_a_topic_that_was_only_hidden_may_still_be_made_again() -> None:
    c = watching()
    c.set("orders", 0, 1, "1,2,3")
    c.rounds(2)
    not_listed(c, "orders")
    assert asked(c, "orders") == [("watched-topic-gone", "orders", "critical")]
    c.set("orders", 0, 1, "1,2,3")
    for _ in range(3):
        listed(c, 100)
    stays(c, 0, 0, "o-2")
    assert severities(c)[-1] == ("topic-recreated", "critical"), "what was said is not of these records"


def test_what_is_said_to_be_gone_is_not_what_was_written_since() -> None:
    c = watching()
    c.set("orders", 0, 1, "1,2,3")
    c.rounds(2)
    not_listed(c, "orders")
    assert asked(c, "orders") == [("watched-topic-gone", "orders", "critical")]
    stays(c, 50, 0, "o-2")
    assert severities(c)[-1] == ("topic-recreated", "warning")
    stays(c, 0, 0, "o-3")
    assert severities(c)[-1] == ("topic-recreated", "critical")


def test_a_cut_shows_in_what_was_known_of_the_log_while_it_was_in_question() -> None:
    c = watching()
    c.fold(f.WatchedListed(c.now_ns, c.sample, "orders", "o-2", 1, 0, 50, 50, 0))
    stays(c, 5, 0, "o-2")
    for _ in range(2):
        c.round()
        c.fold(f.WatchedListed(c.now_ns, c.sample, "orders", "o-2", 1, 0, 40, 40, 0))
    assert c.said == [("topic-recreated", "orders", None), ("offset-regression", "orders", 1)]


def test_time_in_which_nobody_says_an_id_is_not_time_in_which_nobody_says_the_known_one() -> None:
    """One broker with old metadata, and then an outage."""
    c = watching()
    for _ in range(4):
        listed(c, 5, 0, "o-2")
        c.rounds(60)
    assert c.said == []
    for _ in range(18):
        listed(c, 5, 0, "o-2")
    assert c.said == [], "3 s for each pause, and 18 s"
    stays(c, 5, 0, "o-2")
    assert severities(c) == [("topic-recreated", "critical")]


def test_what_only_epochs_tell_is_what_was_told_last() -> None:
    c = cluster()
    told(c, 4, 60, 120)
    told(c, 0, 0, 5, topic_id="o-2")
    told(c, 0, 0, 7, topic_id="o-3")
    c.rounds(599)
    assert c.said == []
    c.rounds(2)
    (found,) = c.open.values()
    assert (found.kind, found.evidence["topic_id"]) == ("topic-recreated", "o-3")
    told(c, 4, 60, 120)
    told(c, 0, 0, 8, topic_id="o-3")
    c.rounds(600)
    assert len(c.said) == 1, "the known one was told last"


@pytest.mark.parametrize("epoch", [0, 3, 4])
def test_the_known_id_may_come_with_an_answer_about_the_other_topics_log(epoch: int) -> None:
    """One broker tells ids, another one offsets: the first has old metadata, the second leads the new topic."""
    c = watching()
    listed(c, 100, 3)
    for turn in range(20):
        listed(c, 5, epoch, "o-2" if turn % 2 == 0 else "o-1")
    assert c.said == []
    stays(c, 5, epoch, "o-2")
    assert c.said == [("topic-recreated", "orders", None)]


@pytest.mark.parametrize(("end", "settled_s"), [(100, 600), (99, 30)])
def test_a_log_that_is_as_long_as_it_was_is_another_topics_only_by_the_word_of_brokers(
    end: int, settled_s: int
) -> None:
    c = watching()
    for _ in range(settled_s):
        listed(c, end, 0, "o-2")
    assert c.said == []
    for _ in range(2):
        listed(c, end, 0, "o-2")
    assert severities(c) == [("topic-recreated", "critical")]


def test_what_was_empty_is_another_topic_soon_and_one_shorter_log_is_enough() -> None:
    c = cluster()
    listed(c, 0)
    stays(c, 5, 0, "o-2")
    assert len(c.said) == 1
    for partition in (1, 2):
        c.fold(f.WatchedListed(c.now_ns, c.sample, "orders", "o-2", partition, 0, 50, 50, 0))
    for partition, end in ((1, 3), (2, 60)):
        c.fold(f.WatchedListed(c.now_ns, c.sample, "orders", "o-3", partition, 0, end, end, 0))
    stays(c, 5, 0, "o-3")
    assert len(c.said) == 2


def test_what_tells_no_end_says_nothing_of_how_long_a_log_is() -> None:
    c = watching()
    for _ in range(40):
        listed(c, 100, 0, "o-2")
        told(c, 0, 0, topic_id="o-2")
    assert c.said == []


def cut_and_outgrown(c: Cluster, topic_id: str | None) -> None:
    for end, epoch in ((100, 4), (80, 5), (120, 5), (121, 5)):
        c.round()
        c.fold(f.WatchedListed(c.now_ns, c.sample, "orders", topic_id, 0, 0, end, end, epoch))


@pytest.mark.parametrize("other", ["former", "never seen"])
def test_a_cut_that_the_log_outgrows_while_its_id_is_in_question_is_told_at_the_end_of_that(other: str) -> None:
    c = watching()
    stays(c, 90, 4, "o-2")
    c.open.clear()
    listed(c, 7, 0, "o-1" if other == "former" else "o-9")  # one answer of one broker
    cut_and_outgrown(c, "o-2")
    found_ns = c.now_ns
    assert c.open == {}
    for end in range(122, 190):
        listed(c, end, 5, "o-2")
    (found,) = c.open.values()
    assert (found.kind, found.evidence["end_before"], found.topic_id) == ("offset-regression", 100, "o-2")
    assert (found.happened_before_ns or 0) < found_ns
    assert list(doubted(c.tracker.state)) == []


def test_a_cut_that_a_topic_outgrows_before_it_is_known_to_be_made_again_is_told_once_it_is() -> None:
    c = watching()
    for end, epoch in ((5, 0), (50, 0), (50, 0), (50, 0), (50, 0), (20, 1), (60, 1)):
        listed(c, end, epoch, "o-2")
    assert c.said == []
    for end in range(60, 100):
        listed(c, end, 1, "o-2")
    assert c.said == [("topic-recreated", "orders", None), ("offset-regression", "orders", 0)]
    assert {v.topic_id for v in c.open.values() if v.partition == 0} == {"o-2"}


@pytest.mark.parametrize("who", ["a third one", "the former one", "nobody"])
def test_what_another_topics_log_seemed_to_lose_is_told_of_nobody(who: str) -> None:
    c = watching()
    stays(c, 90, 0, "o-2")
    c.said.clear()
    listed(c, 5, 0, "o-3")
    cut_and_outgrown(c, {"the former one": "o-2", "a third one": "o-1"}.get(who))
    stays(c, 6, 0, "o-3")
    assert c.said == [("topic-recreated", "orders", None)]
    listed(c, 7, 0, "o-3")
    c.rounds(60)
    assert c.said == [("topic-recreated", "orders", None)]


def test_a_log_that_stays_short_while_its_id_is_in_question_is_told_of_once() -> None:
    c = watching()
    for turn in range(120):
        listed(c, 80, 0, "lie" if turn % 3 == 0 and turn < 60 else "o-1")
    assert c.said == [("offset-regression", "orders", 0)]
    assert c.tracker.state.topology.regressions == {("orders", 0): 1}


def test_a_topic_that_is_probed_from_now_on_has_no_question_left() -> None:
    c = watching()
    listed(c, 5, 0, "o-2")
    c.fold(f.PartitionSeen(c.now_ns, c.sample, "orders", 0, 1, "1", "1"))
    assert list(doubted(c.tracker.state)) == []


def test_a_question_to_which_nobody_says_anything_any_more_ends() -> None:
    c = watching()
    listed(c, 5, 0, "o-2")
    c.rounds(599)
    assert len(list(doubted(c.tracker.state))) == 1
    c.rounds(2)
    assert (list(doubted(c.tracker.state)), c.said) == ([], [])


def test_two_ids_that_take_turns_are_both_unknown() -> None:
    c = watching()
    for turn in range(80):
        listed(c, 5, 0, "o-2" if turn % 2 == 0 else "o-3")
    assert c.said == []
    assert {one.other_id for one in doubted(c.tracker.state)} == {"o-2", "o-3"}
    stays(c, 5, 0, "o-3")
    assert len(c.said) == 1


def test_an_answer_without_an_id_does_not_give_the_known_one() -> None:
    c = watching()
    for turn in range(64):
        listed(c, 5, 0, "o-2" if turn % 2 else None)  # type: ignore[arg-type]  # brokers before and after an upgrade
    assert ("topic-recreated", "orders", None) in c.said


def test_an_epoch_of_another_topics_log_is_not_that_of_the_known_ones_leader() -> None:
    c = watching()
    c.set("orders", 0, 1, "1,2,3")
    listed(c, 100, 4)
    listed(c, 100, 4)
    changes = len(c.changes)
    for turn in range(20):
        listed(c, 100, 4 * (turn % 2), "o-1" if turn % 2 else "o-2")
    assert len(c.changes) == changes


def test_rounds_are_numbered_anew_for_each_of_the_logs() -> None:
    c = watching()
    for end in (50, 50, 50, 50, 40):
        listed(c, end, 0, "o-2")
    c.fold(f.RunnerStarted(c.now_ns, "r", "1", "home"))
    c.sample = 0
    for _ in range(3):
        listed(c, 40, 0, "o-2")
    stays(c, 40, 0, "o-2")
    assert c.said == [("topic-recreated", "orders", None), ("offset-regression", "orders", 0)]


def test_a_cut_waits_until_the_last_question_is_over() -> None:
    c = watching()
    listed(c, 100, 4)
    listed(c, 5, 0, "o-8")
    cut_and_outgrown(c, "o-1")
    for turn in range(80):
        listed(c, 130, 5, "o-9" if turn % 2 else "o-1")
    assert ([one.other_id for one in doubted(c.tracker.state)], c.said) == (["o-9"], [])
    for _ in range(40):
        listed(c, 130, 5)
    assert c.said == [("offset-regression", "orders", 0)]


def test_who_says_no_id_takes_back_none() -> None:
    c = cluster()
    told(c, 4, 60, 120)
    told(c, 0, 0, 5, topic_id="o-2")
    told(c, 0, 0, 5, topic_id=None)
    c.rounds(601)
    assert c.said == [("topic-recreated", "orders", None)]


def test_what_epochs_told_once_is_no_other_topic_while_their_next_answer_is_missing() -> None:
    c = cluster()
    told(c, 4, 60, 120)
    told(c, 4, 60, 120, topic_id="o-2")
    c.rounds(500)
    assert c.said == []


def test_offsets_and_epochs_may_be_told_of_two_topics_for_long() -> None:
    c = watching()
    told(c, 4, 60, 120)
    told(c, 4, 60, topic_id="o-2")
    for _ in range(300):
        listed(c, 100, 4)
    assert [one.other_id for one in doubted(c.tracker.state)] == ["o-2"]
    told(c, 4, 60, 120)
    for _ in range(31):
        listed(c, 100, 4)
    assert (list(doubted(c.tracker.state)), c.said) == ([], [])


def test_a_process_that_begins_asks_anew_what_only_epochs_have_told() -> None:
    c = watching()
    told(c, 4, 60, 120)
    told(c, 4, 60, topic_id="o-2")
    c.fold(f.RunnerStarted(c.now_ns, "r", "1", "home"))
    assert list(doubted(c.tracker.state)) == []


def test_an_empty_partition_makes_no_log_shorter() -> None:
    c = watching()
    c.fold(f.WatchedListed(c.now_ns, c.sample, "orders", "o-1", 1, 0, 0, 0, 0))
    for _ in range(40):
        listed(c, 100, 0, "o-2")
        c.fold(f.WatchedListed(c.now_ns, c.sample, "orders", "o-2", 1, 0, 0, 0, 0))
    assert c.said == []


def test_one_cut_that_answers_with_two_ids_show_is_one() -> None:
    c = watching()
    for end in (*range(101, 111), *range(41, 101)):
        listed(c, end, 0, "o-1" if end % 2 else "o-2")
    for _ in range(40):
        listed(c, 101)
    assert [kind for kind, _, _ in c.said] == ["offset-regression"]


def test_a_cut_that_all_answers_told_of_a_wrong_id_is_one_of_the_known_log() -> None:
    c = watching()
    cut_and_outgrown(c, "lie")
    for _ in range(60):
        listed(c, 130, 5)
    assert c.said == [("offset-regression", "orders", 0)]
    assert [one.topic_id for one in c.open.values()] == ["o-1"]
