"""The first answers of an incident: ranges, cause, commands, and the log around its offsets from its own evidence."""

from __future__ import annotations

import shlex
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from api.judgement.briefing import Found
from api.judgement.first_steps import Broker, first_steps
from api.judgement.likely_cause import Cause, likely_cause
from api.judgement.log_claims import places
from api.judgement.lost_ranges import LostRange, losses, timed
from api.pages.incident_timeline import timeline
from canary.anomalies.topology_change import TopologyChange
from canary.anomalies.violation import Records
from canary.probe.identity import Identity
from storage.store.cursors import Excerpt
from storage.store.values import Findings, Incident, StoredViolation, TopologySpan, ViolationRange
from tests.api.serving import Client, lost

if TYPE_CHECKING:
    from storage.store import Store

S = 10**9
NOON = round(datetime(2026, 11, 27, 12, 0, 0, tzinfo=UTC).timestamp()) * S
UNKNOWN = Cause("unknown", "Cause unknown.")


def stored(offset: int | None, count: int = 1, kind: str = "lost-write", **more: Any) -> StoredViolation:
    first = Identity(7, 1, 0, offset or 0)
    values: dict[str, Any] = {
        "id": f"{kind}{offset}",
        "kind": kind,
        "severity": "critical",
        "cluster": "prod",
        "topic": "probes",
        "topic_id": "i",
        "partition": 0,
        "offset": offset,
        "identity": first,
        "mode": "idempotent",
        "state": "open",
        "reason": None,
        "note": None,
        "first_seen_ns": NOON + 70 * S,
        "last_seen_ns": NOON + 70 * S,
        "closed_ns": None,
        "sightings": (),
        "incident_id": "x",
        "summary": f"{kind} at {offset}",
        "last_offset": None if offset is None else offset + count - 1,
        "count": count,
        "last_identity": first._replace(sequence=first.sequence + count - 1),
    }
    return StoredViolation(**values | more)


def span(second: int, leader: int, isr: str, epoch: int | None = None, until: int | None = None) -> TopologySpan:
    return TopologySpan(
        f"{second}",
        "prod",
        "partition",
        "probes",
        0,
        leader,
        (1, 2, 3),
        tuple(map(int, isr.split(","))) if isr else (),
        "",
        NOON + second * S,
        None if until is None else NOON + until * S,
        epoch,
    )


def broker(second: int, number: int, detail: str, until: int | None = None) -> TopologySpan:
    ends = None if until is None else NOON + until * S
    return TopologySpan("b", "prod", "broker", "", number, None, (), (), detail, NOON + second * S, ends)


def unknown(_: Identity) -> int | None:
    return None


def joined(*found: StoredViolation) -> ViolationRange:
    """The range of violations, as the store joins them."""
    first_ns = min(one.first_seen_ns for one in found)
    return ViolationRange(found[0], found[-1], len(found), sum(one.count for one in found), first_ns)


def test_a_range_says_how_many_writes_are_gone_and_where() -> None:
    ranges = joined(*map(stored, range(40))), joined(stored(41, 5)), joined(stored(99)), joined(stored(None))
    assert [LostRange(one).sentence.partition(", acknowledged before 12:01:10")[0] for one in ranges] == [
        "40 writes, offsets 0 to 39",
        "5 writes, offsets 41 to 45",
        "1 write, offset 99",
        "1 write, at an unknown offset",
    ]


def test_where_no_lost_write_is_said_other_kinds_of_a_loss_say_the_place() -> None:
    wide, cut, write = stored(None, kind="isr-of-one"), stored(3, kind="truncation"), stored(3)
    assert LostRange(joined(cut)).sentence == "truncation at 3"
    assert (losses([cut, wide]), losses([wide]), losses([cut, write])) == ([cut], [], [write])


def test_what_is_a_false_alarm_is_not_gone() -> None:
    found = Found([Findings(stored(3), 1, 0), Findings(stored(3, kind="truncation"), 1, 1)])
    assert ([one.first.kind for one in found.losses], found.lost_records) == (["truncation"], 1)


def test_times_are_the_probe_logs_else_those_that_the_runner_remembers() -> None:
    one = LostRange(joined(*map(stored, range(40))))
    acked = {Identity(7, 1, 0, 0): NOON + 62 * S, Identity(7, 1, 0, 39): NOON + 66 * S}
    assert timed(one, acked.get).sentence == "40 writes, offsets 0 to 39, acknowledged 12:01:02 to 12:01:06"

    def sent(*at_ns: object) -> LostRange:
        return LostRange(joined(*(stored(n * 39, evidence={"sent_ns": at}) for n, at in enumerate(at_ns))))

    both = sent([NOON + 61 * S] * 2, [NOON + 64 * S] * 2)
    assert timed(both, unknown).sentence == "2 writes, offsets 0 to 39, sent 12:01:01 to 12:01:04"
    assert timed(sent([NOON - 86_400 * S] * 2), unknown).sentence.endswith("sent 2026-11-26 12:00:00")
    assert timed(sent("x"), unknown) == sent("x")


@pytest.mark.parametrize(
    ("spans", "brokers", "kind", "words"),
    [
        ([span(0, 1, "1,2,3"), span(60, 1, "1"), span(65, 2, "2")], [], "unclean election", "not in the ISR {1}"),
        (
            [span(0, 1, "1,2,3"), span(60, 1, "1"), span(62, -1, "1"), span(65, 2, "2")],
            [],
            "unclean election",
            "12:01:05",
        ),
        ([span(0, 1, "1,2,3"), span(65, 2, "2,3")], [], "leader changed", "Broker 2 took over from broker 1"),
        ([span(0, 1, "1,2"), span(65, 2, "2,3")], [], "leader changed", "only {1, 2} of 3 replicas were in sync"),
        ([span(0, 1, "1,2,3", 4), span(65, 1, "1,2,3", 5)], [], "leader restarted", "leader epoch 4 to 5"),
        ([span(0, 1, "1,2,3")], [broker(60, 1, "", 66)], "leader restarted", "gone at 12:01:00, and back at 12:01:06"),
        ([span(0, 1, "1,2,3"), span(60, 1, "1,2")], [], "ISR shrank", "{1, 2} of 3 replicas at 12:01:00: broker 3"),
        ([span(0, 1, "1,2,3")], [broker(60, 3, "")], "broker gone", "Broker 3 was gone"),
        ([span(0, 1, "1,2,3"), span(75, 2, "2")], [broker(75, 1, "")], "unknown", "no change of leader"),
        ([span(-3600, 1, "1,2,3"), span(-1800, 2, "2,3")], [], "unknown", "no change of leader"),
        ([], [], "unknown", "does not have this partition"),
    ],
)
def test_the_cause_is_what_the_timeline_has_just_before_and_else_unknown(
    spans: list[TopologySpan], brokers: list[TopologySpan], kind: str, words: str
) -> None:
    found = likely_cause([stored(3)], spans, brokers)
    assert (found.kind, words in found.sentence) == (kind, True), found


UNREACHED = "No broker answered from 12:00:50 {}: brokers 1, 2 and 3 were gone or out of reach."
THERE = [broker(-3600, number, f"b{number}:9092") for number in (1, 2, 3)]


def silence(second: int, until: int | None) -> TopologySpan:
    return replace(broker(second, 0, "silent", until), subject="cluster")


@pytest.mark.parametrize(
    ("brokers", "kind", "words"),
    [
        (
            [broker(64, 1, "", 80), broker(65, 2, "", 78), broker(66, 3, "", 79)],
            "leader restarted",
            "Brokers 1, 2 and 3 were gone at 12:01:04 to 12:01:06 (broker 1 led); all were back at 12:01:20.",
        ),
        (
            [broker(66, 2, "", 90), broker(66, 3, "")],
            "broker gone",
            "Brokers 2 and 3 were gone at 12:01:06; broker 3 is not back.",
        ),
        (
            [broker(69, 3, ""), broker(71, 2, "")],
            "broker gone",
            "Brokers 2 and 3 were gone at 12:01:09 to 12:01:11.",
        ),
        (
            [silence(50, 64), broker(64, 2, "", 65), broker(64, 3, "", 67)],
            "broker gone",
            f"{UNREACHED.format('to 12:01:04')} Brokers 2 and 3 were gone at 12:01:04; all were back at 12:01:07.",
        ),
        (
            [silence(50, None)],
            "broker gone",
            UNREACHED.format("on"),
        ),
        (
            [broker(10, 2, "", 20), broker(60, 3, "", 66)],
            "broker gone",
            "Broker 3 was gone at 12:01:00, and back at 12:01:06. Broker 2 was gone at 12:00:10, and back at 12:00:20.",
        ),
        (
            [broker(60, 3, "", 62), broker(68, 3, "", 69)],
            "broker gone",
            "Broker 3 was gone at 12:01:08, and back at 12:01:09. Broker 3 was gone at 12:01:00, and back at 12:01:02.",
        ),
    ],
)
def test_every_broker_that_was_gone_is_named(brokers: list[TopologySpan], kind: str, words: str) -> None:
    found = likely_cause([stored(3)], [span(0, 1, "1,2,3")], [*THERE, *brokers])
    assert (found.kind, found.sentence) == (kind, words)


def test_a_better_cause_names_all_brokers_that_were_gone_too_and_one_alone_says_nothing_twice() -> None:
    changed = [span(0, 1, "1,2,3"), span(68, 3, "2,3")]
    several = likely_cause([stored(3)], changed, [*THERE, broker(64, 2, ""), broker(65, 4, "")])
    assert several.kind == "leader changed"
    assert several.sentence == (
        "Broker 3 took over from broker 1 at 12:01:08. Brokers 2 and 4 were gone at 12:01:04 to 12:01:05."
    )
    one = likely_cause([stored(3)], changed, [*THERE, broker(64, 2, "")])
    assert one.sentence == "Broker 3 took over from broker 1 at 12:01:08."


def test_of_many_outages_the_latest_are_named_and_the_others_counted() -> None:
    away = [broker(second, 2, "", second + 1) for second in range(0, 70, 10)]
    found = likely_cause([stored(3)], [span(-60, 1, "1,2,3")], [*THERE, *away])
    assert found.sentence.count("Broker 2 was gone") == 4
    assert found.sentence.endswith("Brokers were gone 3 times more.")


def test_a_violation_that_is_a_cause_is_named() -> None:
    found = likely_cause(
        [stored(3), stored(None, kind="topic-recreated")], [span(0, 1, "1,2,3"), span(65, 2, "2,3")], []
    )
    assert found.sentence == "topic-recreated at None"


def test_commands_are_filled_in_the_most_urgent_first() -> None:
    ranges = [LostRange(joined(stored(40, 9)))]
    holders = [Broker(2, "kafka-2:9092", there=False), Broker(1, "kafka-1:9092")]
    unclean = Cause("unclean election", "")
    steps = first_steps("prod eu", "probes", 0, ranges, holders, "kafka-1:9092", unclean)
    copy, dump, salvage, forbid, describe, other = steps
    assert copy.command == (
        'mkdir -p /var/tmp/broker-2 && cp -a "${LOG_DIR:?log.dirs of broker 2}"/probes-0 /var/tmp/broker-2/'
    )
    assert "before it starts again" in copy.words
    assert (copy.where, other.where) == ("broker 2 (kafka-2)", "broker 1 (kafka-1)")
    assert "--print-data-log | awk '$2 == \"offset:\" && $3 >= 40 && $3 <= 48'" in dump.command
    assert "/broker-2/probes-0/*.log" in dump.command
    assert salvage.command == "canary salvage --log-dir /var/tmp/broker-2/probes-0 --epochs-from 'prod eu' --dry-run"
    assert forbid.command.endswith("--entity-name probes --alter --add-config unclean.leader.election.enable=false")
    assert describe.command == "kafka-topics.sh --bootstrap-server kafka-1:9092 --describe --topic probes"
    asked = first_steps("c", "probes", 0, ranges, holders, "", UNKNOWN)[3]
    assert "--alter" not in asked.command
    assert '--bootstrap-server "${BOOTSTRAP:?host:port of a broker}"' in asked.command


def test_a_name_cannot_leave_its_argument() -> None:
    for step in first_steps(
        "c; rm x", "x; rm -rf ~", 0, [LostRange(joined(stored(0, topic="x; rm -rf ~")))], [Broker(1)], "a;b", UNKNOWN
    ):
        assert not {"rm", "rm;", "b"} & set(shlex.split(step.command)), step.command


def test_where_nothing_is_lost_nothing_is_copied() -> None:
    assert [one.command[:15] for one in first_steps("c", "probes", 0, [], [Broker(1)], "a:1", UNKNOWN)] == [
        "kafka-topics.sh"
    ]
    assert first_steps("c", "", None, [], [], "", UNKNOWN) == []


def test_the_log_around_is_there_with_the_violation_before_the_probe_log_is() -> None:
    around = [{"offset": 39, "producer_id": 7, "generation": 1, "sequence": 39}]
    after = [{"offset": 49, "producer_id": 7, "generation": 2, "sequence": 0}]
    row = stored(40, 9, records=(Records(40, 9, Identity(7, 1, 0, 40)),))
    row = replace(row, evidence={"partition_state": {"neighbourhood": around}, "last_neighbourhood": after})
    shown = places([row], [])
    assert [one.offset for one in shown] == list(range(35, 54))
    assert [one.offset for one in shown if one.disputed] == list(range(40, 49))
    claims = {one.offset: [claim.identity for claim in one.claims] for one in shown if one.claims}
    assert claims == {n: [Identity(7, 1, 0, n)] for n in range(39, 49)} | {49: [Identity(7, 2, 0, 0)]}
    assert {claim.seen_by for one in shown for claim in one.claims} == {None}


def test_the_probe_log_completes_what_the_evidence_has() -> None:
    names = {"producer_id": 7, "generation": 1, "partition": 0}
    logged = [{"offset": 40, **names, "sequence": 40, "outcome": "acked", "seen_by": ["rc"]}]
    logged.append({**logged[0], "generation": 2, "sequence": 0})
    (place,) = (one for one in places([stored(40)], logged) if one.offset == 40)
    claims = [(one.identity.generation, one.seen_by, one.gone) for one in place.claims]
    assert claims == [(1, ("rc",), True), (2, ("rc",), False)]
    assert places([stored(None)], []) == places([], []) == []


def test_a_huge_range_shows_its_ends_only() -> None:
    row = stored(0, 10_000_000, records=(Records(0, 10_000_000, Identity(7, 1, 0, 0)),))
    shown = places([row], [])
    assert [one.offset for one in shown] == [*range(6), *range(9_999_994, 10_000_005)]
    assert all(one.claims for one in shown if one.disputed)


def test_the_timeline_says_each_thing_once() -> None:
    first = NOON + 70 * S
    incident = Incident(
        "x", "prod", "probes", "i", 0, "l", "h", first, "lost-write", "critical", "", "open", None, None, first, first
    )
    lost, skip = [stored(n) for n in range(40)], stored(0, kind="poll-skip")
    found = Found([Findings(lost[0], 40, 40), Findings(skip, 7, 7)], Excerpt([joined(*lost)], 1))
    there = [broker(0, number, f"host-{number}:9092") for number in (1, 2, 3)]
    rows = timeline(incident, found, [*there, span(60, 2, "2,3", 4), span(65, 2, "2,3", 5)], {})
    assert [one.sentence for one in rows] == [
        "Broker 1, Broker 2, Broker 3 are there.",
        "probes-0 is led by broker 2; in sync: 2, 3 of 3.",
        "probes-0 is led by broker 2 again, epoch 4 to 5.",
        "probes-0: 40 writes, offsets 0 to 39, acknowledged before 12:01:10",
        "A poll skipped messages, 7 times in probes-0",
    ]


def test_the_answers_are_data_too(client: Client, store: Store) -> None:
    now = time.time_ns()
    for leader, isr, at_ns, epoch in ((1, "1", now - 60 * S, 4), (2, "2,3", now - 30 * S, 5)):
        change = TopologyChange(at_ns, "partition", "durability-canary", 1, leader, "1,2,3", isr, leader_epoch=epoch)
        store.topology.record(
            "prod", [TopologyChange(at_ns - S, "broker", "", leader, detail=f"h{leader}:9092 rack a")]
        )
        store.topology.record("prod", [change])
    found = [replace(lost(n, at_ns=now), evidence={"sent_ns": [now - 40 * S] * 2}) for n in range(3)]
    store.violations.record("prod", found)
    body = client.get(f"/api/v1/incidents/{store.incidents.page().items[0].id}").json()["briefing"]
    (loss,) = body["losses"]
    assert (loss["first_offset"], loss["last_offset"], loss["records"], loss["timed"]) == (1000, 1002, 3, "sent")
    assert loss["leaders"] == [{"broker": 1, "address": "h1:9092", "leader_epoch": 4}]
    assert body["cause"]["kind"] == "unclean election"
    assert body["brokers"] == {"1": "h1:9092", "2": "h2:9092"}
    assert body["steps"][0]["where"] == "broker 1 (h1)"
    assert "--bootstrap-server h1:9092" in body["steps"][3]["command"]
