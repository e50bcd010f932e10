"""The page says that writes are kept where they were verified; what is unknown is named, by subject and since when."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from api.judgement.safety import judge
from api.judgement.verified import date_and_time
from api.knowledge.views import read_views
from api.state import Knowledge
from storage.store.values import View, ViolationGroup
from tests.api.serving import NOW_NS, partition, view

if TYPE_CHECKING:
    from api.judgement.safety import Judgement
    from storage.store import Store
    from tests.api.serving import Client

S: Final = 10**9
TOPIC: Final = "durability-canary"
AGO: Final = NOW_NS - 300 * S


def proof(mode: str = "idempotent", **more: Any) -> dict[str, Any]:
    known = {"acknowledged_ns": NOW_NS - S, "verified_ns": NOW_NS - S}
    return {"topic": TOPIC, "mode": mode, "partitions": 3, **known, **more}


def shortfall(*partitions: int, of: int | None = None, since_ns: int = AGO) -> dict[str, Any]:
    return {"partitions": partitions, "of": len(partitions) if of is None else of, "since_ns": since_ns}


def judged(*proofs: dict[str, Any], rows: tuple[ViolationGroup, ...] = (), age_s: int = 0, **more: Any) -> Judgement:
    content = view(now_ns=NOW_NS, proofs=proofs, **more)
    views = read_views([View("prod", "canary-0", NOW_NS - age_s * S, content)], NOW_NS, ["prod"])
    return judge(views["prod"], Knowledge(NOW_NS, {}, (), (), rows))


def test_a_cluster_of_which_all_is_verified_has_kept_every_write() -> None:
    said = judged(proof(), proof("transactional"))
    assert (said.level, said.sentence) == ("safe", "prod has kept every write that it acknowledged.")
    assert said.kept


def test_a_topology_that_is_not_asked_for_is_unknown_since_then() -> None:
    """The judge goes on, with what readers and writers report."""
    assert judged(proof(), watched_ns=NOW_NS - 29 * S).level == "safe"
    said = judged(proof(), watched_ns=NOW_NS - 120 * S)
    assert (said.level, said.kept) == ("unknown", False)
    assert said.sentence == (
        "What has changed in the topology of prod (leaders, ends of logs, ids of topics) "
        f"since {date_and_time(NOW_NS - 120 * S)} (2 min) is unknown: the canary has asked nothing about it. "
        f"All that prod acknowledged until {date_and_time(NOW_NS - S)} was read back."
    )


def test_a_topic_that_answers_with_a_former_id_is_unknown_and_named() -> None:
    former = {
        "topic": TOPIC,
        "topic_id": "b",
        "other_id": "a",
        "other_is_former": True,
        "other_since_ns": NOW_NS - 20 * S,
    }
    said = judged(proof(), topics=[former])
    assert said.level == "unknown"
    assert f"with the id of a former topic {TOPIC}: whether" in said.sentence
    assert judged(proof(), topics=[former | {"other_since_ns": NOW_NS - 9 * S}]).level == "safe"


def test_a_watched_topic_of_which_brokers_give_two_ids_is_unknown_and_named() -> None:
    other = {"topic": "orders", "topic_id": "a", "other_id": "b", "other_since_ns": NOW_NS - 20 * S}
    said = judged(proof(), doubted=[other])
    assert said.level == "unknown"
    assert "give two ids of the topic orders" in said.sentence
    assert judged(proof(), doubted=[other | {"other_since_ns": NOW_NS - 9 * S}]).level == "safe"


def test_a_mode_that_never_acknowledged_a_write_is_not_hidden_by_another() -> None:
    never = proof("transactional", acknowledged_ns=0, verified_ns=0, silent=shortfall(0, 1, 2))
    said = judged(proof(), never)
    assert said.level == "unknown"
    assert said.sentence == (
        f"prod has never acknowledged a write of the mode transactional to {TOPIC}: it proves nothing. "
        f"All that prod acknowledged of the mode idempotent until {date_and_time(NOW_NS - S)} was read back."
    )
    group = proof("group", acknowledged_ns=0, verified_ns=0, silent=shortfall(0, 1, 2))
    assert judged(proof(), group).sentence.startswith(
        f"prod has never acknowledged a commit of the mode group in {TOPIC}: it proves nothing."
    )
    before = judged(proof(), never | {"silent": None})
    assert (before.level, before.kept) == ("watch", True)
    assert f"no write of the mode transactional to {TOPIC} is acknowledged yet" in before.sentence


def test_partitions_in_which_a_mode_is_silent_are_named_and_counted() -> None:
    said = judged(proof(partitions=20, silent=shortfall(4, 7, 9, of=12)))
    assert said.level == "unknown"
    assert said.sentence.startswith(
        f"prod has acknowledged no write of the mode idempotent to {TOPIC}-4, {TOPIC}-7, {TOPIC}-9 and 9 more "
        f"partitions since {date_and_time(AGO)} (5 min)."
    )


def test_what_was_not_read_for_hours_is_not_kept() -> None:
    eight = NOW_NS - 8 * 3600 * S
    said = judged(proof(verified_ns=eight, late=shortfall(0, 1, 2, since_ns=eight)), acked=28_800)
    assert said.level == "unknown"
    assert "was not read back since " in said.sentence
    assert "(8 h 0 min)" in said.sentence
    assert said.sentence.endswith(f"All that prod acknowledged until {date_and_time(eight)} was read back.")
    assert "kept every" not in said.sentence
    assert not said.healthy


@pytest.mark.parametrize(("ago_s", "level"), [(60, "unknown"), (3 * 86_400, "safe")])
def test_what_expired_unread_is_unknown_for_an_hour_and_named_for_ever(ago_s: int, level: str) -> None:
    at_ns = NOW_NS - ago_s * S
    said = judged(proof(unverified=5000, unverified_ns=at_ns), acked=5003)
    assert said.level == level
    assert "5,000 acknowledged writes, because they expired, or went with the topic, before the" in said.sentence
    assert date_and_time(at_ns) in said.sentence
    assert "every write that it acknowledged" not in said.sentence
    assert not said.kept


def test_a_topic_that_is_gone_has_not_kept_what_was_in_it() -> None:
    topic = {"topic": TOPIC, "topic_id": "a", "voided": 812, "gone_since_ns": AGO}
    said = judged(proof(), topics=[topic])
    assert said.level == "unknown"
    assert (
        f"The topic {TOPIC} of prod is gone since {date_and_time(AGO)} (5 min): 812 acknowledged writes went with it."
        in (said.sentence)
    )


RAW: Final = "_TIMED_OUT: Failed while waiting for controller: Local: Timed out"


def test_a_broker_that_does_not_answer_is_named_and_the_clients_words_are_details() -> None:
    asked = [
        {"question": f"describe_topics {TOPIC}", "since_ns": AGO, "error": RAW},
        {"question": f"list_offsets {TOPIC}[1]", "since_ns": AGO + S, "error": "_TIMED_OUT: no answer"},
    ]
    rows = [partition(0), partition(1, leader=2), partition(2)]
    said = judged(proof(), unanswered=asked, partitions=rows, waiting_for=f"describe_topics {TOPIC}: {RAW}")
    assert said.level == "unknown"
    assert said.sentence == (
        f"Broker 2 of prod has not answered since {date_and_time(AGO)} (5 min): unknown are the ids and leaders of "
        f"topics and the ends of {TOPIC}-1. All that prod acknowledged until {date_and_time(NOW_NS - S)} was read back."
    )
    assert said.details == (f"describe_topics {TOPIC}: {RAW}", f"list_offsets {TOPIC}[1]: _TIMED_OUT: no answer")


def test_everything_unknown_is_said_beside_what_is_broken_and_what_worries() -> None:
    asked = [{"question": "members", "since_ns": AGO, "error": RAW}]
    open_loss = ViolationGroup(
        cluster="prod",
        kind="lost-write",
        severity="critical",
        mode="idempotent",
        state="open",
        reason=None,
        records=3,
        first_ns=NOW_NS,
        last_ns=NOW_NS,
    )
    waits = ["canary_unacknowledged_seconds", [TOPIC, "0", "1"], 60]
    said = judged(proof(silent=shortfall(0)), rows=(open_loss,), unanswered=asked, more=[waits])
    assert said.level == "broken"
    for words in (
        "prod has lost 3 acknowledged writes.",
        "prod has not answered since",
        f"acknowledged no write of the mode idempotent to {TOPIC}-0 since",
        "Besides, 1 partition takes no writes.",
    ):
        assert words in said.sentence


def test_a_canary_that_is_silent_says_until_when_all_was_read_and_nothing_newer() -> None:
    said = judged(proof(silent=shortfall(0), verified_ns=AGO, acknowledged_ns=AGO), age_s=89)
    assert said.level == "unknown"
    assert "has not reported for 89 s" in said.sentence
    assert f"All that prod acknowledged until {date_and_time(AGO)} was read back." in said.sentence
    assert "no write of the mode" not in said.sentence


def test_rest_and_page_show_modes_and_details(client: Client, store: Store) -> None:
    asked = [{"question": "members", "since_ns": AGO, "error": f"{RAW} <b>"}]
    late = proof("relay", late=shortfall(1), verified_ns=AGO, unverified=2, unverified_ns=AGO)
    content = view(now_ns=NOW_NS, proofs=[proof(), late], unanswered=asked)
    store.views.save("prod", "canary-0", time.time_ns(), content)
    body = client.get("/api/v1/clusters/prod/summary").json()
    assert body["details"] == [f"members: {RAW} <b>"]
    assert [(one["mode"], one["silent"], one["unverified"]) for one in body["modes"]] == [
        ("idempotent", None, 0),
        ("relay", None, 2),
    ]
    assert body["modes"][1]["late"]["partitions"] == [1]
    assert body["modes"][1]["verified_until"] < body["modes"][1]["acknowledged_until"]
    page = client.get("/", refresh="off").text
    assert f"<li><code>members: {RAW} &lt;b&gt;</code></li>" in page
    assert RAW not in page.split("</h1>")[0]


def test_a_runner_of_an_older_release_is_judged_by_its_totals() -> None:
    assert judged(seen=0).level == "unknown"
    assert judged().level == "safe"
