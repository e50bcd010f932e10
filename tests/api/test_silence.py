"""A canary that judges nothing says so: on the page, in /readyz and on /metrics, each at once."""

from __future__ import annotations

import re
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from api import create_app
from api.judgement.safety import silence
from api.knowledge.heartbeats import Heartbeats
from api.knowledge.views import read_views
from canary.runner.publishing.troubles import Trouble, blindness
from tests.api.serving import Client, ProbeLogFake, settings, view

if TYPE_CHECKING:
    from api.knowledge.views import ClusterView
    from storage.store import Store

LEDGER = "the ledger /data/ledger cannot be written: No space left on device; free or repair the disk"
AUDITOR = "its auditor ends again and again (KeyError('x'))"
FAILING = [["canary_part_failing", ["ledger /data/ledger"], 1], ["canary_ledger_pending_rows", [], 1234]]


def ago(seconds: float) -> int:
    return time.time_ns() - int(seconds * 1e9)


def shown(store: Store, *, judged_s: float = 0, told_s: float = 0, runner: str = "canary-0", **more: Any) -> None:
    """Store a view of a runner whose judge came on so long ago, and whose process spoke so long ago."""
    store.views.save("prod", runner, ago(judged_s), view(told_ns=ago(told_s), **more))


def sentence(client: Client) -> str:
    said: str = client.get("/api/v1/clusters/prod/summary").json()["sentence"]
    assert said in client.get("/", refresh="off").text.replace("&#39;", "'")
    return said


def ready(client: Client) -> str:
    """What /readyz says is missing; nothing if it is ready."""
    answer = client.get("/readyz")
    return "" if answer.status_code == 200 else str(answer.json()["detail"])


@pytest.mark.parametrize("judged_s", [0, 3600])
def test_a_ledger_that_cannot_be_written_is_named(client: Client, store: Store, judged_s: float) -> None:
    shown(store, judged_s=judged_s, troubles=[[LEDGER, True], [AUDITOR, False]], more=FAILING)
    aside = f"Besides, its canary does not work in full: {AUDITOR}."
    assert sentence(client) == f"The canary of prod judges nothing: {LEDGER}. {aside}"
    assert "Unknown." in client.get("/", refresh="off").text
    assert ready(client).startswith(f"The canary of prod judges nothing: {LEDGER}.")
    text = client.get("/metrics").text
    assert 'canary_part_failing{cluster="prod",part="ledger /data/ledger"} 1' in text
    assert 'canary_ledger_pending_rows{cluster="prod"} 1234' in text


def test_a_judge_that_stands_is_said_though_its_process_speaks(client: Client, store: Store) -> None:
    shown(store, judged_s=20, more=FAILING)
    assert re.fullmatch(r"The canary of prod has not judged anything for 2\d s\.", sentence(client))
    assert "has not judged anything" in ready(client)
    page = client.get("/alerts/CanaryLostWrite", cluster="prod").text
    assert "Whether it is so now is unknown:</strong> The canary of prod has not judged" in page
    text = client.get("/metrics").text
    (beat,) = re.findall(r"canary_runner_heartbeat_timestamp_seconds{.*} (\S+)", text)
    assert 19 < time.time() - float(beat) < 60
    assert "canary_log_end_offset" not in text, "gauges of what is judged are of then"


def test_what_a_process_said_before_its_end_is_no_news(client: Client, store: Store) -> None:
    shown(store, judged_s=60, told_s=40, troubles=[[LEDGER, True]], more=FAILING)
    told = r"The canary of prod has not reported for 6\d s, and the store takes writes: its runner does not run, or .*"
    assert re.fullmatch(told, sentence(client))
    assert "has not reported" in ready(client)
    assert "canary_part_failing{" not in client.get("/metrics").text


def test_a_part_without_which_nothing_goes_unnoticed_is_a_worry(client: Client, store: Store) -> None:
    unwritable = ["canary_unacknowledged_seconds", ["durability-canary", "0", "1"], 60]
    for more, aside in ([], ""), ([unwritable], "; 1 partition takes no writes"):
        shown(store, troubles=[[AUDITOR, False]], more=more)
        assert sentence(client) == f"prod has lost nothing, but its canary does not work in full: {AUDITOR}{aside}."
    assert ready(client) == ""


def test_one_runner_that_judges_is_enough_and_the_other_is_a_worry(client: Client, store: Store) -> None:
    shown(store, runner="canary-1", judged_s=30, troubles=[[LEDGER, True]])
    assert sentence(client) == f"prod has lost nothing, but its canary does not work in full: {LEDGER}."
    assert ready(client) == ""


def test_a_share_that_nobody_judges_is_unknown_however_well_the_others_are(client: Client, store: Store) -> None:
    shown(store, shard=[0, 2])
    unwatched = "No runner judges 1 of 2 shares of the partitions of prod"
    assert sentence(client) == f"{unwatched}."
    shown(store, runner="canary-1", judged_s=60, told_s=60, shard=[1, 2])
    assert sentence(client) == f"{unwatched}."
    shown(store, runner="canary-1", shard=[1, 2], troubles=[[LEDGER, True]])
    assert sentence(client) == f"{unwatched}: {LEDGER}."
    assert ready(client).startswith(unwatched)
    shown(store, runner="canary-1", shard=[1, 2])
    assert "kept every write" in sentence(client)
    assert ready(client) == ""


def test_nothing_was_kept_as_long_as_nothing_was_read(client: Client, store: Store) -> None:
    shown(store, seen=0)
    assert sentence(client) == "No probe of prod has been read back yet."
    shown(store, seen=1)
    assert "kept every write" in sentence(client)


def test_blindness_is_no_broken_promise(client: Client, store: Store) -> None:
    shown(store)
    store.violations.record("prod", [blindness("canary-0", {"queue": Trouble("facts wait", blind=True)}, ago(1))])
    assert sentence(client) == "Nothing is known of prod now: we cannot look."


def test_whoever_has_configured_no_cluster_is_ready_while_any_is_judged(store: Store) -> None:
    anything = Client(create_app(settings(), store, ProbeLogFake()))
    shown(store, troubles=[[LEDGER, True]])
    assert ready(anything) != ""
    shown(store)
    assert ready(anything) == ""


class Looking:
    """Pages of one API, ``at`` seconds after the first: what they say of a runner whose clock is ahead."""

    def __init__(self, store: Store) -> None:
        self._store, self._heartbeats, self.now_ns = store, Heartbeats(), time.time_ns()

    def told(self, at: float, *, ahead: float, judged: float = 0, name: str = "canary-0") -> None:
        """The runner stores its view."""
        told_ns = self.now_ns + round((at + ahead) * 1e9)
        self._store.views.save("prod", name, told_ns - round(judged * 1e9), view(told_ns=told_ns))

    def view(self, at: float) -> ClusterView:
        heard = partial(self._heartbeats.heard, now_s=at)
        return read_views(self._store.views.all(), self.now_ns + round(at * 1e9), ["prod"], heard)["prod"]

    def says(self, at: float) -> str | None:
        return silence(self.view(at))


AHEAD = "It is not known whether all of prod is judged: the clock of canary-0 is 60 s ahead of the API's."


def test_a_heartbeat_that_is_ahead_of_the_clock_proves_nothing_until_it_is_seen_to_go_on(store: Store) -> None:
    page = Looking(store)
    page.told(0, ahead=60)
    assert page.says(0) == AHEAD, "whether it is of now or of a minute ago nobody knows"
    page.told(4, ahead=60)
    assert page.says(5) is None, "5 s ago it was not there"
    assert page.view(5).shards_missing == 0
    page.told(100, ahead=60)
    assert page.says(100) == AHEAD, "it may have stopped right after the last look"


def test_a_runner_that_stopped_is_silent_though_its_clock_was_ahead(store: Store) -> None:
    page = Looking(store)
    page.told(0, ahead=60)
    page.says(0)
    for at in range(10, 80):  # for a while its last heartbeat is of the present
        assert page.says(at) == f"The canary of prod has not reported for {at} s."
    assert page.view(50).shards_missing == 1
    (runner,) = page.view(50).runners
    assert runner.at_ns == page.now_ns, "so the alert CanaryRunnerDown fires in its time"


def test_a_judge_that_stands_is_seen_though_its_clock_is_ahead(store: Store) -> None:
    page = Looking(store)
    for at in (0, 5):
        page.told(at, ahead=60, judged=30)
        said = page.says(at)
    assert said == "The canary of prod has not judged anything for 30 s."


BEHIND = "It is not known whether all of prod is judged: the clock of canary-0 is 20 s behind the API's."


def test_a_heartbeat_that_is_behind_the_clock_is_as_old_as_it_was_read(store: Store) -> None:
    page = Looking(store)
    page.told(0, ahead=-20)
    assert page.says(0) == "The canary of prod has not reported for 20 s.", "an API that has just begun knows no better"
    page.told(4, ahead=-20)
    assert page.says(5) is None, "5 s ago it was not there"
    page.told(6, ahead=-20)
    assert page.says(6) is None
    (runner,) = page.view(6).runners
    assert (runner.clock_s, runner.at_ns) == (-20, page.now_ns + 6 * 10**9)
    page.told(20, ahead=-20)
    assert page.says(20) == BEHIND, "it may have stopped right after the last look"
    for at in range(20, 80):
        stopped = page.says(at)
        assert stopped == (BEHIND if at <= 28 else f"The canary of prod has not reported for {at - 20} s.")


def test_a_heartbeat_that_the_last_look_may_just_have_missed_is_of_its_time(store: Store) -> None:
    """A runner that ended 20 s ago, when nobody has looked for a minute."""
    page = Looking(store)
    page.told(0, ahead=0)
    page.says(0)
    page.told(40, ahead=0)
    assert page.says(60) == "The canary of prod has not reported for 20 s."


def test_a_judge_that_stands_is_seen_though_its_clock_is_behind(store: Store) -> None:
    page = Looking(store)
    for at in (0, 5):
        page.told(at, ahead=-60, judged=30)
        said = page.says(at)
    assert said == "The canary of prod has not judged anything for 30 s."


def test_a_dead_runner_whose_clock_was_ahead_hides_none_that_lives(store: Store) -> None:
    page = Looking(store)
    page.told(0, ahead=3600)
    page.says(0)
    page.told(20, ahead=0, name="canary-1")
    assert page.says(20) is None
    assert [runner.name for runner in page.view(20).runners] == ["canary-1", "canary-0"]


def test_a_cluster_that_does_not_answer_leaves_the_api_ready_which_says_so(client: Client, store: Store) -> None:
    shown(store)
    assert client.get("/readyz").text == "ready\n"
    blind = blindness("canary-0", {"cluster": Trouble("it has not answered for 45 s", blind=True)}, time.time_ns())
    store.violations.record("prod", [blind])
    answer = client.get("/readyz")
    assert (answer.status_code, answer.text) == (200, f"ready\n{sentence(client)}\n")
    assert "Nothing is known of prod now" in answer.text
