from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from canary.anomalies.catalogue import CATALOGUE
from canary.drills.catalogue import drills
from canary.drills.drill import Drill, Said
from canary.drills.report import document, paging
from canary.drills.report.page import page, timeline
from canary.drills.report.picture import MOST, pictures, shown
from canary.drills.rig.rig import Line
from canary.drills.rig.tally import count
from canary.settings.serving import ApiSettings
from dashboards.__main__ import ROOT
from dashboards.reference.drills import drills_page
from dashboards.rules import GROUPS
from tests.drills.playing import BEGAN, KNOWN, found, place, played, result, who

if TYPE_CHECKING:
    from pathlib import Path

FOUND = result(played(found("lost-write", [4, 5]), gone=[4, 5]), control=played())
MISSED = result(played(gone=[4]))
FALSE = result(played(found("lost-write", [4]), found("phantom", [8]), gone=[4]))
LATE = result(played(found("lost-write", [4], after_s=60), gone=[4]))
NOT_HERE = result(None, impossible="there is no java")
SILENT = result(played(), Drill(title="Nothing goes", source="", steps=(), says=(), uncontrolled="It is silent."))
ALL = (FOUND, MISSED, FALSE, LATE, NOT_HERE, SILENT)


class Parsed(HTMLParser):
    """The tags of a page that are not closed, what it asks others for, and its words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.asked: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.asked += [value or "" for name, value in attrs if name in {"src", "href"}]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_outcomes_have_a_word_and_a_sentence() -> None:
    assert [document.word(one) for one in ALL] == [
        "found",
        "FAILED",
        "FAILED",
        "found late",
        "not possible here",
        "silent",
    ]
    assert document.sentence(FOUND) == (
        "2 acknowledged records are gone. The canary said lost-write after 1.0 s; nothing it said was false, and the "
        "control was silent."
    )
    assert "no java" in document.sentence(NOT_HERE)
    assert "said nothing" in document.sentence(SILENT)


def test_the_text_has_what_was_said_when_and_what_is_wrong() -> None:
    text = document.text(FOUND)
    assert "lost-write after 1.0 s (at most 10)" in text
    assert "2 acknowledged records are gone" in text
    assert "10 acknowledged, 8 survivors, 2 acknowledged and lost" in text
    assert "the control was silent" in text
    assert "missed" in document.text(MISSED)
    assert "false" in document.text(FALSE)
    assert "no java" in document.text(NOT_HERE)


def test_the_document_is_json_with_times_and_the_table() -> None:
    one = json.loads(json.dumps(document.document(FOUND)))
    assert one["detected"] == [{"kind": "lost-write", "after_s": 1.0, "within_s": 10.0}]
    assert one["tally"]["acked_lost"] == 2
    assert one["tally"]["loss_rate"] == pytest.approx(0.2)
    assert one["violations"][0]["at"] == "2023-11-14T22:13:41.000Z"
    assert one["timeline"] == [{"at": "2023-11-14T22:13:20.000Z", "what": "broker 1 is killed (-9)", "done": True}]
    assert one["control_silent"] is True
    assert [offset["offset"] for offset in one["gone"]] == [4, 5]
    assert json.loads(json.dumps(document.document(NOT_HERE)))["impossible"] == "there is no java"


def test_the_page_is_whole_and_asks_nobody_for_anything() -> None:
    parsed = Parsed(page(ALL))
    assert parsed.open == []
    assert "script" not in parsed.tags
    assert "link" not in parsed.tags
    assert all(address.startswith("#") for address in parsed.asked)
    assert "@import" not in page(ALL)
    assert "url(" not in page(ALL)
    words = " ".join(parsed.words)
    for said in (
        "not said",
        "late",
        "Not performed.",
        "it has to stay silent",
        "at most 42 s",
        "acknowledged and lost",
    ):
        assert said in words, said


def test_what_others_wrote_is_text_on_the_page() -> None:
    drill = Drill(title="<b>", source="<i>", steps=(), says=(Said("lost-write"),))
    line = Line(BEGAN, "topic <script>alert(1)</script>", done=True)
    shown_page = page([result(played(found("lost-write", [4]), gone=[4], timeline=[line]), drill)])
    assert "<script" not in shown_page
    assert "&lt;script&gt;" in shown_page
    assert "&lt;b&gt;" in shown_page
    assert "And nobody &lt;notices&gt;." in shown_page
    assert "lost-write &lt;of&gt; these" in shown_page


def test_the_timeline_is_in_order_and_tells_faults_from_findings() -> None:
    lines = [Line(KNOWN + 2, "it goes on", done=True), Line(KNOWN + 0.5, "the ISR is [1]")]
    events = timeline(played(found("lost-write", [4], after_s=1.0), gone=[4], timeline=lines))
    assert [(event.after_s, event.who) for event in events] == [(0.5, "saw"), (1.0, "said"), (2.0, "did")]


def test_the_picture_has_what_was_promised_what_is_there_and_what_was_named() -> None:
    (picture,) = pictures(played(found("lost-write", [4, 5]), gone=[4, 5]))
    assert picture.log == "probes-0"
    assert picture.kinds == ["lost-write"]
    columns = {one.offset: one for one in picture.columns}
    assert list(columns) == ["2", "3", "4", "5", "6", "7"]
    assert (columns["4"].promised.words, columns["4"].promised.mark) == ("1:4", "gone")
    assert (columns["4"].there.words, columns["4"].there.mark) == ("2:4", "bad")
    assert (columns["3"].promised.mark, columns["3"].there.mark, columns["3"].kinds) == ("ok", "ok", frozenset())


def test_of_many_offsets_the_first_and_the_last_are_shown() -> None:
    offsets = shown(range(100, 1000))
    assert len(offsets) == MOST
    assert (offsets[0], offsets[-1]) == (98, 1001)
    assert shown([0]) == [0, 1, 2]


def test_a_forged_record_is_in_the_picture() -> None:
    (picture,) = pictures(played(found("phantom", [7]), places={"forged": {place(7)}}))
    assert {one.offset: one.there.mark for one in picture.columns}["7"] == "bad"


def test_the_tally_counts_by_identity_as_call_me_maybe_does() -> None:
    sent = [("probes", who(number)) for number in range(1000)]
    acked, kept = sent[:126] + sent[127:988], sent[:468]
    tally = count(sent, acked, [*kept, ("probes", who(5, generation=9))])
    assert (tally.attempted, tally.acked, tally.survivors, tally.lost, tally.unacked_found) == (1000, 987, 468, 520, 1)
    assert tally.ack_rate == pytest.approx(0.987)
    assert tally.loss_rate == pytest.approx(0.52684903)


def test_the_time_to_page_is_that_of_the_files_that_are_shipped() -> None:
    prometheus: dict[str, Any] = yaml.safe_load((ROOT / "deploy/prometheus.yml").read_text("utf-8"))["global"]
    route: dict[str, Any] = yaml.safe_load((ROOT / "deploy/alertmanager.yml").read_text("utf-8"))["route"]
    assert prometheus["scrape_interval"] == f"{paging.SCRAPE_S:g}s"
    assert prometheus["evaluation_interval"] == f"{paging.EVALUATION_S:g}s"
    assert route["group_wait"] == f"{paging.GROUP_WAIT_S:g}s"
    assert all("group_wait" not in one for one in route["routes"] if one["receiver"] != "deadmansswitch")
    assert ApiSettings.model_fields["metrics_cache"].default == paging.KEPT_S
    pages = {rule.kind for rules in GROUPS.values() for rule in rules if rule.kind and rule.severity == "critical"}
    assert {kind for kind in CATALOGUE if paging.page_after_s(kind) is not None} == pages & set(CATALOGUE)


def test_only_what_is_critical_and_had_to_be_said_pages() -> None:
    assert document.paged(FOUND) == pytest.approx(1 + 1 + 15 + 15 + 0 + 10)
    warned = played(found("lost-write", [4], severity="warning"), gone=[4])
    assert document.paged(result(warned)) is None
    assert "Nobody is paged" in page([result(warned)])
    assert document.paged(NOT_HERE) is None


def test_the_document_of_all_drills_has_the_results_of_drills_as_they_are_now(tmp_path: Path) -> None:
    assert "not run" in drills_page(tmp_path / "none.jsonl")
    stored = tmp_path / "drills.jsonl"
    made = {**document.line(FOUND), "name": "fsync-loss", "digest": drills()["fsync-loss"].digest}
    slow = {**made, "detected": [{"kind": "lost-write", "after_s": 4.0, "within_s": 10.0}]}
    wrong = {**made, "complaints": ["false: lost-write"], "control_silent": False}
    former, gone = {**wrong, "digest": "former"}, {**made, "name": "gone-since"}
    lines = [json.dumps(one) + "\n" for one in (made, slow, slow, former, gone)]
    stored.write_text("".join(lines))
    text = drills_page(stored)
    assert "| [fsync-loss](#fsync-loss) | 3 of 3 | 4.0 s (4.0) | 10 s | 42 s | silent | 4.1.0 |" in text
    assert "| [fsync-loss](#fsync-loss) | 3 of 3 | **missed** |" in text, "the results have no truncation"
    assert "gone-since" not in text
    stored.write_text("".join([*lines, json.dumps(wrong) + "\n"]))
    assert "| [fsync-loss](#fsync-loss) | **3 of 4** | 2.5 s (4.0) | 10 s | 42 s | **not silent** |" in drills_page(
        stored
    )
