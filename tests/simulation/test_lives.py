"""Whole lives of the canary: fresh ones, and those that once went wrong."""

from __future__ import annotations

import time

import pytest

from canary.probing.readers.scrub import Scrubber
from canary.workloads.catalogue import WORKLOADS
from simulation.harms.catalogue import WEIGHTS
from simulation.life.life import Life, live
from simulation.search.shrinking import shrunk, told
from simulation.world.plan import PIPELINED, Plan, Strike, plan_of
from tests.support.calibration import scale
from tests.support.seeds import cases

pytestmark = pytest.mark.dear("whole lives of the canary, in which any part may fail")

FRESH_CPU_S = 60.0
"""For so long fresh seeds are lived in each run, on the budgets' machine; a hundred times as long with --long."""

ISR_OF_ONE = Plan(
    seed=5,
    hours=0.15,
    grain=5.0,
    partitions=1,
    retention_s=2000.0,
    strikes=(Strike(120.0, "isr-of-one-then-power", 30.0, 4),),
)
"""An ISR that shrinks to one, whose last member loses power: the seeds' own story."""

WENT_WRONG: dict[str, Plan] = {
    "a clock that is set while the canary runs, and then starts a day ahead, and is put right": Plan(
        seed=12,
        hours=0.12,
        grain=5.0,
        partitions=1,
        modes=("idempotent",),
        retention_s=20000.0,
        strikes=(
            Strike(at=120.0, harm="step-clock", lasts=1.0, seed=3931840016),
            Strike(at=180.0, harm="clock-ahead", lasts=30.0, seed=985756081),
            Strike(at=300.0, harm="isr-of-one-then-power", lasts=120.0, seed=2491783538),
        ),
    ),
    "a database that fails over, and forgets what had been filed": Plan(
        seed=3,
        hours=0.1,
        grain=1.0,
        partitions=1,
        unclean=True,
        modes=("idempotent",),
        strikes=(Strike(110.0, "store-fails-over", 180.0, 1), Strike(120.0, "isr-of-one-then-power", 30.0, 4)),
    ),
    "a leader that nobody but clients hears, and that answers for a log that is longer by now": Plan(
        seed=216,
        hours=0.685,
        grain=30.0,
        retention_s=12000.0,
        unclean=True,
        strikes=(Strike(at=1800.0, harm="isolate-leader", lasts=182.85, seed=641238186),),
    ),
    "a leader that is cut off while its topic is deleted and made again, and answers a re-read": Plan(
        seed=40232,
        hours=0.1982683448237266,
        partitions=1,
        modes=("transactional",),
        retention_s=400.0,
        unclean=True,
        strikes=(
            Strike(at=282.13395758979664, harm="kill", lasts=5.9943569807243815, seed=3230694420),
            Strike(at=356.6443115901558, harm="kill", lasts=1.8418951718799594, seed=3014292027),
            Strike(at=429.2021411342725, harm="isolate-leader", lasts=162.1163280363906, seed=2524484065),
            Strike(at=450.198186007641, harm="kill", lasts=3.9427539739678337, seed=4255917233),
            Strike(at=558.6011853681377, harm="recreate-topic", lasts=155.16485599727795, seed=2769362133),
        ),
    ),
    "six partitions, for which the scrubber had as little time as for three": Plan(
        seed=93010,
        hours=1.1111111111111112,
        grain=5.0,
        modes=("idempotent", "relay"),
        retention_s=500.0,
        unclean=True,
        strikes=(
            Strike(at=2562.5073173400506, harm="isolate-leader", lasts=19.726937729397427, seed=2728263138),
            Strike(at=3706.2776970418545, harm="isolate-leader", lasts=233.0587970969853, seed=2925431510),
            Strike(at=3985.7236167511705, harm="hollow-records", lasts=5.64934365225059, seed=1876818475),
        ),
    ),
    "an acknowledgement that the disk had only said it had": Plan(
        seed=123722686,
        hours=0.188,
        partitions=1,
        strikes=(Strike(at=665.1583699371029, harm="lying-fsync", lasts=1.6959055247120114, seed=3046831850),),
    ),
    "a ledger that was put back before anybody was shown what it had held since": Plan(
        seed=48,
        hours=0.05,
        grain=5.0,
        partitions=1,
        strikes=(Strike(at=119.995, harm="old-ledger", lasts=1.862388690021577, seed=406222829),),
    ),
    "a ledger that was put back, and shipped other segments under old numbers": Plan(
        seed=48,
        hours=0.15,
        grain=5.0,
        partitions=1,
        strikes=(Strike(at=170.0, harm="old-ledger", lasts=300.0, seed=4),),
    ),
    "a clock that was ahead by more than the probe log's retention": Plan(
        seed=1,
        hours=3.0,
        grain=60.0,
        partitions=1,
        retention_s=1_000_000.0,
        strikes=(Strike(at=5400.0, harm="clock-ahead", lasts=600.0, seed=5),),
    ),
    "a machine that slept while records expired that its canary had just written": Plan(
        seed=1,
        hours=0.3,
        grain=5.0,
        partitions=1,
        retention_s=500.0,
        strikes=(Strike(at=700.0, harm="machine-sleeps", lasts=1.0, seed=0),),
    ),
    "a canary that is cut off later than its harm strikes, just after it was looked whether all is well": Plan(
        seed=7,
        hours=1.2,
        grain=120.0,
        modes=("idempotent", "transactional"),
        retention_s=12000.0,
        strikes=(Strike(at=3500.0, harm="switch-off", lasts=2.4, seed=1962505746),),
    ),
    "a place that was read, as whole, with another probe in it than the one that was missed there": Plan(
        seed=1288660401,
        hours=0.213,
        grain=5.0,
        partitions=1,
        retention_s=2000.0,
        modes=("idempotent",),
        strikes=(Strike(at=681.3351360872739, harm="bug-ack-before-write", lasts=2.205170804729705, seed=1274640541),),
    ),
}
"""Lives in which the canary, or the world, was wrong once; each by what it was about."""
LONG = (
    "a leader that is cut off while its topic is deleted and made again, and answers a re-read",
    "six partitions, for which the scrubber had as little time as for three",
)
"""Those that cost as much as all others."""


def broken_by(life: Life, mode: str | None = None) -> set[str]:
    """Return by what promises of a mode were broken, or of all modes."""
    fates = life.truth.broken().values()
    return {one.gone[1] for one in fates if one.gone and (mode is None or one.topic == life.topic_of(mode))}


def test_a_life_without_harm_keeps_every_promise_and_says_nothing() -> None:
    life = Life(Plan(seed=3, hours=0.03, grain=1.0, modes=("idempotent", "transactional")))
    life.settle_beats = 30
    outcome = life.live()
    assert outcome.wrong == []
    assert outcome.promises > 600
    assert outcome.broken == 0


@pytest.mark.parametrize("modes", [("fencing", "idempotent", "relay", "group"), ("idempotent", "mirror")], ids="+".join)
def test_each_mode_lives_and_says_nothing_without_harm(modes: tuple[str, ...]) -> None:
    world = Life(Plan(seed=3, hours=0.04, grain=1.0, modes=modes))
    world.settle_beats = 30
    outcome = world.live()
    assert outcome.wrong == []
    probed = {topic for topic, _ in world.truth.looks}
    assert {world.topic_of(mode) for mode in modes if WORKLOADS[mode].topic != "none"} <= probed
    assert outcome.promises > 20 * len(modes)
    assert [one.summary for _, one in world.truth.violations] == []


@pytest.mark.parametrize(("seed", "mode"), [*((seed, "idempotent") for seed in range(len(PIPELINED))), (1, "plain")])
def test_bursts_keep_every_promise_and_say_nothing_without_harm(seed: int, mode: str) -> None:
    world = Life(Plan(seed=seed, hours=0.015, grain=1.0, partitions=1, modes=(mode,), burst=5, random_beats=5))
    world.settle_beats = 20
    outcome = world.live()
    assert outcome.wrong == [], told(outcome)
    assert outcome.promises > 250
    assert [one.summary for _, one in world.truth.violations] == []


def test_what_is_lost_of_bursts_is_found_and_said() -> None:
    hollow = (Strike(60.0, "hollow-records", 1.0, seed) for seed in (4, 5, 6))
    others = (Strike(61.0, "bug-mistaken-duplicate", 60.0, 5), Strike(62.0, "isr-of-one-then-power", 60.0, 4))
    strikes = (*hollow, *others)
    life = Life(Plan(7, 0.06, 1.0, partitions=1, retention_s=1000.0, unclean=True, burst=3, strikes=strikes))
    life.settle_beats = 120
    outcome = life.live()
    assert outcome.wrong == [], told(outcome)
    assert {"never written", "hollow"} <= broken_by(life), told(outcome)


@pytest.mark.parametrize(
    ("mode", "bug", "said"),
    [
        ("idempotent", None, set()),
        ("idempotent", "sequence-unchecked", {("nonmonotonic-send", "critical")}),
        ("plain", None, {("nonmonotonic-send", "warning")}),
    ],
)
def test_requests_that_change_places_are_out_of_order_where_no_sequence_number_is_checked(
    mode: str, bug: str | None, said: set[tuple[str, str]]
) -> None:
    """idempotent-producer, "Pipelining": M1, M3, M2 is what retries make of several requests in flight without it."""
    strikes = tuple(Strike(at, "bug-swapped", 30.0, 4) for at in (20.0, 60.0))
    world = Life(Plan(4, 0.04, 1.0, partitions=1, modes=(mode,), retention_s=1000.0, burst=5, strikes=strikes))
    world.settle_beats = 20
    if bug is not None:
        world.cluster.bugs.add(bug)
    outcome = world.live()
    assert outcome.wrong == [], told(outcome)
    assert any(bug == "swapped" for _, bug, *_ in world.cluster.struck), "the risk was met"
    found = {(one.kind, one.severity) for _, one in world.truth.violations}
    assert found - {("reorder", severity) for _, severity in said} == said


def test_random_reads_find_what_is_gone_from_the_middle_without_a_scrubber(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scrubber, "run", lambda scrubber: scrubber.stopping.wait())
    strikes = tuple(Strike(90.0, "hollow-records", 1.0, n) for n in range(4))
    world = Life(Plan(6, 0.06, 1.0, partitions=1, retention_s=1000.0, random_beats=1, strikes=strikes))
    world.settle_beats = 120  # no more is lost then: so much of so long a log is read at random in time
    outcome = world.live()
    assert outcome.wrong == [], told(outcome)
    assert "lost-write" in {one.kind for _, one in world.truth.violations}


def test_a_life_may_be_so_coarse_that_an_hour_lies_between_two_probes() -> None:
    settings = Plan(seed=3, hours=1.0, grain=3600.0, modes=("idempotent", "relay", "group", "fencing")).settings()
    assert settings.clusters[0].watch.audit_interval == 600 * 3600


@pytest.mark.parametrize(
    "about", [pytest.param(one, marks=pytest.mark.slow if one in LONG else ()) for one in WENT_WRONG]
)
def test_what_went_wrong_once_goes_right(about: str) -> None:
    outcome = live(WENT_WRONG[about])
    assert outcome.wrong == [], told(outcome)


def test_a_lost_write_is_found_and_said() -> None:
    outcome = live(ISR_OF_ONE)
    assert outcome.wrong == [], told(outcome)
    assert outcome.broken > 0, told(outcome)


def test_what_a_broken_cluster_loses_is_found_and_said_in_each_mode() -> None:
    modes = ("idempotent", "transactional", "fencing")
    strikes = (Strike(200.0, "hollow-records", 300.0, 6), Strike(200.0, "bug-mistaken-duplicate", 300.0, 5))
    life = Life(Plan(seed=6, hours=0.2, grain=5.0, partitions=1, modes=modes, retention_s=4000.0, strikes=strikes))
    outcome = life.live()
    assert outcome.wrong == [], told(outcome)
    for mode in modes:
        assert {"never written", "hollow"} <= broken_by(life, mode), f"{mode}: {told(outcome)}"


def test_a_loss_is_found_though_the_scrubber_turns_to_one_log_in_an_interval_and_there_are_many(
    monkeypatch: pytest.MonkeyPatch, *, long: bool
) -> None:
    if not long:  # with fewer logs a loss is to be found sooner
        monkeypatch.setattr("simulation.world.world.LOOK_BEATS", 40)
    strikes = (Strike(200.0, "elect", 1.0, 1),)
    plan = Plan(6, 0.1, 20.0, partitions=72 if long else 40, retention_s=20_000.0, strikes=strikes)
    life = Life(plan)
    life.settle_beats = 180
    outcome = life.live()
    assert outcome.wrong == [], told(outcome)
    assert life.look_beats == plan.logs + 5
    assert outcome.broken > plan.logs, "nothing expires before it is found"


def test_a_loss_below_the_highest_start_that_the_log_had_is_found() -> None:
    """All disks are wiped, the log begins again at 0, and then a record is lost below the old start."""
    strikes = (
        Strike(1500.0, "wipe-all-brokers", 5.0, 1),
        *(Strike(1700.0, "hollow-records", 1.0, n) for n in range(4)),
    )
    outcome = live(Plan(6, 0.5, 5.0, partitions=1, retention_s=1000.0, strikes=strikes))
    assert outcome.wrong == [], told(outcome)
    assert any("hollow" in words for _, words in outcome.story)


def test_a_transaction_that_hangs_is_said_and_a_loss_above_it_is_found() -> None:
    strikes = (Strike(200.0, "hang-transaction", 1.0, 1), *(Strike(700.0, "hollow-records", 1.0, n) for n in range(4)))
    plan = Plan(6, 0.3, 5.0, partitions=1, modes=("transactional",), retention_s=4000.0, strikes=strikes)
    world = Life(plan)
    outcome = world.live()
    assert outcome.wrong == [], told(outcome)
    assert world.cluster.hung(600.0)
    said = [one for _, one in world.truth.violations]
    stands = min(one.offset or 0 for one in said if "last stable offset" in one.summary)
    assert max(one.offset or 0 for one in said if one.kind == "lost-write") > stands > 0


def test_a_wiped_ledger_is_said_whenever_the_next_start_is_killed(*, long: bool) -> None:
    for at in range(150, 174, 2 if long else 5):  # waits end every 5 s
        strikes = (Strike(150.0, "wipe-ledger", 1.0, 1), Strike(at + 0.3, "kill-canary", 1.0, 1))
        world = Life(Plan(seed=3, hours=0.06, grain=5.0, partitions=1, strikes=strikes))
        world.settle_beats = 40
        outcome = world.live()
        assert outcome.wrong == [], told(outcome)
        assert world.truth.memory_lost, f"killed at {at}"


def test_a_client_that_is_refused_is_tried_again_with_growing_pauses() -> None:
    refused = Strike(200.0, "refuse-producers", 500.0, 1)
    world = Life(Plan(seed=6, hours=0.2, grain=5.0, partitions=1, strikes=(refused,)))
    outcome = world.live()
    assert outcome.wrong == [], told(outcome)
    assert "blind" in {one.kind for _, one in world.truth.violations}


@pytest.mark.timeout(0)
def test_fresh_seeds(*, long: bool) -> None:
    began, broken, worth = time.process_time(), 0, scale()
    for seed in cases("world", 10_000):
        outcome = live(plan_of(seed, WEIGHTS))
        assert outcome.wrong == [], told(shrunk(outcome, tries=60))
        broken += outcome.broken
        if worth * (time.process_time() - began) > FRESH_CPU_S * (100 if long else 1):
            break
    assert broken > 0
