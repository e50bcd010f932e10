"""What the runners of each cluster published last, put together.

While a runner lives, what it published is at most a second old. How old it is follows from the runner's clock and the
API's, and from how long the API has read the same (heartbeats.py). A heartbeat that is ahead of the API's clock proves
nothing, as it may be of a runner that has stopped. One that says that it is older than the API's last look, which did
not find it, is of a clock that is behind: it is as old as the API has read it. A runner's counters and histograms count
for ever, because a counter never goes back. Its gauges describe the present and count only while it lives. The metric's
catalogue entry says how one series that several runners measure becomes one.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import structlog

from api.knowledge.heartbeats import Heard
from api.knowledge.slowness import SlowBroker
from api.knowledge.writing import UNKNOWN, Written
from canary.extras import remedy
from canary.metrics import METRICS, Measurement
from canary.metrics.metric import folded
from canary.metrics.objectives import Objective
from canary.metrics.proofs import Proof, merged
from canary.metrics.published import PartitionView, Published, TopicView, Unanswered, loads
from canary.metrics.watched.groups import GroupsSeen, TransactionsSeen
from canary.metrics.watched.mirrors import MirrorsSeen
from storage.store.values import View

log = structlog.get_logger(__name__)

FRESH_S = 8.0
"""A runner is fresh for this long after it last judged. It judges, and stores its view, at least once a second."""
_UNHEARD_S = 3.0
"""A runner from which nothing arrives for so long makes it doubtful whether the store takes writes."""
_WITHOUT = "canary_brokers_without_probe"
_NO_SPARK = (
    f"no nights: no Spark. No scheduler has led the cluster: install Spark ({remedy('spark')}), and start canary up or "
    "canary schedule"
)
_NEVER = "no nights: schedule.reconcile is never"

Series = dict[str, dict[tuple[str, ...], Measurement]]
"""Metric name to labels (without ``cluster``) to what was measured."""


@dataclass(frozen=True, slots=True)
class RunnerState:
    """One runner: its name, when it last judged (ns since the epoch), how long ago that is (s), what it waits for."""

    name: str
    at_ns: int
    age_s: float
    waiting_for: str | None
    shard: tuple[int, int] = (0, 1)
    """Which share of the cluster's partitions it probes, of how many."""
    stored_s: float = 0.0
    """How long ago it stored its view, in s."""
    troubles: tuple[tuple[str, bool], ...] = ()
    """What it could not do then, in words, and whether losses may go unnoticed meanwhile."""
    clock_s: float = 0.0
    """By how much its clock is ahead of the API's (less than 0: behind), by the heartbeat as it was read first."""
    ahead_s: float | None = None
    """The same, where it is not known for that whether the runner lives."""

    @property
    def fresh(self) -> bool:
        """Whether the runner judges."""
        return self.age_s <= FRESH_S

    @property
    def reports(self) -> bool:
        """Whether its process lives."""
        return self.fresh or self.stored_s <= FRESH_S

    @property
    def blind(self) -> str | None:
        """Why losses may go unnoticed by this runner; None: they may not."""
        return "; ".join(words for words, blind in self.troubles if blind and self.reports) or None

    @property
    def judges(self) -> bool:
        """Whether it judges for certain, and sees what it needs for that."""
        return self.fresh and not self.blind and self.ahead_s is None


@dataclass(slots=True)
class ClusterView:
    """What all runners of one cluster know; of each partition and topic the freshest view."""

    name: str
    cluster_id: str | None = None
    runners: list[RunnerState] = field(default_factory=list)
    series: Series = field(default_factory=dict)
    partitions: list[PartitionView] = field(default_factory=list)
    topics: list[TopicView] = field(default_factory=list)
    since_ns: int | None = None
    night_s: float | None = None
    """The longest time between two reconciliations by the schedule, as the newest view has it; None: there are none."""
    night_asked: bool = False
    """Whether the settings ask for nights: the default schedule alone does not."""
    scheduled: bool = False
    """Whether a scheduler, which needs Spark, leads or has led the cluster."""
    objectives: tuple[Objective, ...] = ()
    """What the settings ask of the cluster, as the newest view has it."""
    now_ns: int = 0
    """The time of the runner that judged last, by its own clock."""
    unanswered: list[Unanswered] = field(default_factory=list)
    """The questions of live runners to the cluster that have no answer now."""
    last_proofs: list[Proof] = field(default_factory=list)
    unwatched_s: float = 0.0
    """For how long a runner has asked the cluster nothing about itself."""
    """What live runners know of the writes of each mode to each topic; without any, what the last one knew."""
    suspects: int = 0
    doubted: list[TopicView] = field(default_factory=list)
    """Topics that are watched and not probed, of which brokers give two ids."""
    audited: list[tuple[str, str, int]] = field(default_factory=list)
    """(check, severity, findings) of the last audit."""
    groups: GroupsSeen | None = None
    transactions: TransactionsSeen | None = None
    """What live runners know of applications; None: nothing, or they are not watched."""
    mirrors: MirrorsSeen | None = None
    """The same of topics that are mirrored from other clusters."""
    slow: Sequence[SlowBroker] = ()
    """The brokers that answer slowly beside the others."""
    writes: Written = UNKNOWN
    """Whether the store takes writes of the API: if not, the silence of runners says nothing of them."""

    @property
    def unheard(self) -> bool:
        """Whether nothing of any runner arrives."""
        return bool(self.runners) and min(runner.stored_s for runner in self.runners) > _UNHEARD_S

    @property
    def shares(self) -> int:
        """How many shares the runners divide the partitions into, or did while one lived; 0 before the first runner."""
        live = [runner for runner in self.runners if runner.fresh]
        return max((runner.shard[1] for runner in live or self.runners), default=0)

    @property
    def shards_missing(self) -> int:
        """How many shares of the partitions no live runner probes."""
        return len(set(range(self.shares)) - {runner.shard[0] for runner in self.runners if runner.fresh})

    @property
    def unjudged(self) -> int:
        """How many shares of the partitions are without a runner that judges and sees what it needs for that."""
        judging = {runner.shard[0] for runner in self.runners if runner.judges}
        return len(set(range(self.shares)) - judging)

    @property
    def judges(self) -> bool:
        """Whether runners judge all partitions, and see what they need for that."""
        return bool(self.shares) and not self.unjudged

    @property
    def troubles(self) -> list[str]:
        """What live runners cannot do now, in words."""
        return [words for runner in self.runners if runner.reports for words, _ in runner.troubles]

    @property
    def night_due_s(self) -> float | None:
        """The longest time between two nights that are due; None: none is, as nobody does or asks for them."""
        return self.night_s if self.scheduled or self.night_asked else None

    @property
    def no_nights(self) -> str | None:
        """Why there are no nights, and what to do for some; None: there are, or nothing is known of the settings."""
        if not self.runners or (self.scheduled and self.night_s is not None):
            return None
        return _NO_SPARK if self.night_s is not None else _NEVER

    @property
    def age_s(self) -> float | None:
        """Seconds since any runner judged, None if none ever did."""
        return min((runner.age_s for runner in self.runners), default=None)

    @property
    def waiting_for(self) -> str | None:
        """What keeps a live runner from probing, None if nothing does."""
        return next((runner.waiting_for for runner in self.runners if runner.fresh and runner.waiting_for), None)

    @property
    def proofs(self) -> list[Proof]:
        """What live runners know of the writes of each mode to each topic."""
        return self.last_proofs if any(runner.fresh for runner in self.runners) else []

    def values(self, name: str) -> list[float]:
        """Return the values of all series of a metric."""
        return [one.value for one in self.series.get(name, {}).values()]

    def total(self, name: str) -> int:
        """Return the sum of all series of a counter or gauge."""
        return int(sum(self.values(name)))

    @property
    def unread(self) -> int | None:
        """How many acknowledged probes a consumer has not read; of each partition by the one that waits for most.

        None while no runner tells it.
        """
        series = self.series.get("canary_unseen_probes")
        if not series:
            return None
        by_place: dict[tuple[str, ...], float] = {}
        for labels, one in series.items():
            by_place[labels[:2]] = max(by_place.get(labels[:2], 0), one.value)
        return int(sum(by_place.values()))

    @property
    def read_back(self) -> int:
        """How many probes were read, each counted once; of each partition by the consumer that has read most."""
        return sum(max((one.seen for one in row.consumers.values()), default=0) for row in self.partitions)


def readable(rows: Iterable[View]) -> Iterator[tuple[View, Published]]:
    """Yield the views that can be read. Another is logged: its cluster looks as if the runner had not reported."""
    for row in rows:
        try:
            yield row, loads(row.view, row.at_ns)
        except ValueError as error:
            log.warning("view_unreadable", cluster=row.cluster, runner=row.runner, error=str(error))


def _unknown(_runner: tuple[str, str], _told_ns: int) -> Heard:
    return Heard()


def read_views(
    rows: Iterable[View],
    now_ns: int,
    configured: Sequence[str] = (),
    heard: Callable[[tuple[str, str], int], Heard] = _unknown,
    scheduled: Collection[str] = (),
) -> dict[str, ClusterView]:
    """Return the view of each cluster, by name: those in ``rows`` and in ``configured``.

    ``heard`` returns how old the heartbeat of a (cluster, runner) is, as far as the API has looked. ``scheduled`` are
    clusters that a scheduler leads or has led.
    """
    rows = list(rows)
    names = sorted({*configured, *(row.cluster for row in rows)})
    clusters = {name: ClusterView(name, scheduled=name in scheduled) for name in names}
    shared: dict[str, list[Published]] = {}
    read = [(row, shown, _runner(row, shown, now_ns, heard)) for row, shown in readable(rows)]
    for row, shown, runner in sorted(read, key=lambda one: (one[0].cluster, -one[2].at_ns)):
        _merge(clusters[row.cluster], shown, runner)
        if runner.fresh and runner.shard[1] > 1:
            shared.setdefault(row.cluster, []).append(shown)
    for name, views in shared.items():
        _share_brokers(clusters[name], views)
    return clusters


def _runner(row: View, shown: Published, now_ns: int, heard: Callable[[tuple[str, str], int], Heard]) -> RunnerState:
    told_ns = row.at_ns if shown.told_ns is None else shown.told_ns
    least_s, most_s = heard((row.cluster, row.runner), told_ns)
    read_ns = now_ns - round(least_s * 1e9)
    is_behind = (now_ns - told_ns) / 1e9 > most_s
    heard_ns = read_ns if is_behind else min(told_ns, read_ns)  # not later than the API has first read it
    judged_ns = heard_ns - max(told_ns - row.at_ns, 0)
    clock_s = (told_ns - read_ns) / 1e9
    is_doubtful = (is_behind or told_ns - now_ns > FRESH_S * 1e9) and least_s <= FRESH_S < most_s
    return RunnerState(
        row.runner,
        judged_ns,
        (now_ns - judged_ns) / 1e9,
        shown.waiting_for,
        shown.shard,
        (now_ns - heard_ns) / 1e9,
        shown.troubles,
        clock_s,
        clock_s if is_doubtful else None,
    )


def _merge(view: ClusterView, shown: Published, runner: RunnerState) -> None:
    view.cluster_id = view.cluster_id or shown.cluster_id
    if shown.since_ns is not None:
        view.since_ns = shown.since_ns if view.since_ns is None else min(view.since_ns, shown.since_ns)
    for one in shown.series():
        metric = METRICS.get(one.name)
        taken = None if metric is None else metric.taken(one)
        if metric is None or taken is None:
            continue
        if metric.type != "gauge" or runner.fresh or (runner.reports and metric.of_runner):
            members = view.series.setdefault(one.name, {})
            old = members.get(taken.labels)
            members[taken.labels] = taken if old is None else folded(old, taken, metric.runners)
    if not view.runners:
        view.night_s, view.night_asked, view.objectives = shown.night_s, shown.night_asked, shown.objectives
        view.now_ns = shown.now_ns
    view.runners.append(runner)
    _take_present(view, shown, runner)
    if not runner.fresh and view.partitions:
        return
    known = {(one.topic, one.partition) for one in view.partitions}
    view.partitions += [one for one in shown.partitions if (one.topic, one.partition) not in known]
    view.partitions.sort(key=lambda one: (one.topic, one.partition))
    named = {one.topic for one in view.topics}
    view.topics += [one for one in shown.topics if one.topic not in named]
    if runner.fresh or not any(one.fresh for one in view.runners):
        view.suspects += shown.suspects
        told = {(one.topic, one.other_id) for one in view.doubted}
        view.doubted += [one for one in shown.doubted if (one.topic, one.other_id) not in told]


def _take_present(view: ClusterView, shown: Published, runner: RunnerState) -> None:
    """Take what counts while a runner lives, and what the last one knew."""
    if not view.audited and shown.audit is not None:
        found = Counter((one.check, one.severity) for one in shown.audit.findings)
        view.audited = [(check, severity, count) for (check, severity), count in sorted(found.items())]
    if runner.fresh or len(view.runners) == 1:
        view.last_proofs = merged([*view.last_proofs, *shown.proofs])
    if runner.fresh:
        if shown.watched_ns and shown.now_ns is not None:
            unwatched_s = (shown.now_ns - shown.watched_ns) / 1e9
            view.unwatched_s = max(unwatched_s, view.unwatched_s)
        view.unanswered += shown.unanswered
        view.groups = view.groups or shown.groups
        view.transactions = view.transactions or shown.transactions
        view.mirrors = view.mirrors or shown.mirrors


def _share_brokers(view: ClusterView, shared: Iterable[Published]) -> None:
    """Count the brokers without a probe of a cluster that runners share: each knows the leaders of its own share."""
    brokers, leaders = 0, set[int | None]()
    for shown in shared:
        own = {one.leader for one in shown.partitions} - {None, -1}
        leaders |= own
        without = next((one.value for one in shown.measurements if one.name == _WITHOUT), None)
        if without is not None:
            brokers = max(brokers, int(without) + len(own))
    if brokers:
        view.series[_WITHOUT] = {(): Measurement(_WITHOUT, (), max(brokers - len(leaders), 0))}
