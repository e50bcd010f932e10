"""A model of MirrorMaker 2 that copies again, skips, goes back and mixes up, against what is said of its mirror."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from canary.anomalies.mirrormaker.facts import Answer, Checkpoint, PartitionRound, Round, Row
from canary.anomalies.mirrormaker.mirror import Link, Mirror
from canary.anomalies.mirrormaker.runs import Run, Runs
from canary.probe.identity import Identity

if TYPE_CHECKING:
    from canary.anomalies.mirrormaker.facts import Question
    from canary.anomalies.violation import Violation

S = 10**9
STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "copy", "skip", "back", "late", "alien", "look", "wait"]), st.integers(1, 6)),
    min_size=5,
    max_size=60,
)


@dataclass
class World:
    """Both logs as lists of (offset, identity); what the canary has read of them."""

    seed: int
    mirror: Mirror = field(default_factory=lambda: Mirror(Link("a", "probes", "a.probes", 60.0)))
    now_ns: int = 1_700_000_000 * S
    source: list[Row] = field(default_factory=list)
    target: list[Row] = field(default_factory=list)
    next_source: int = 0
    held_back: list[Row] = field(default_factory=list)
    read: list[int] = field(default_factory=lambda: [0, 0])
    said: list[Violation] = field(default_factory=list)
    over: list[Violation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)  # noqa: S311  # which steps are tried
        self.sequences = {(7, 0): 0, (8, 0): 0}

    def write(self, n: int) -> None:
        for _ in range(n):
            producer, generation = self.random.choice(sorted(self.sequences))
            sequence = self.sequences[producer, generation]
            self.sequences[producer, generation] += 1
            offset = (self.source[-1].offset if self.source else -1) + self.random.choice([1, 1, 1, 2])
            self.source.append(Row(offset, Identity(producer, generation, 0, sequence), self.now_ns))

    def _put(self, row: Row) -> None:
        offset = (self.target[-1].offset if self.target else 99) + self.random.choice([1, 1, 1, 2])
        self.target.append(row._replace(offset=offset))

    def copy(self, n: int) -> None:
        for row in self.source[self.next_source : self.next_source + n]:
            self._put(row)
        self.skip(n)

    def skip(self, n: int) -> None:
        self.next_source = min(self.next_source + n, len(self.source))

    def back(self, n: int) -> None:
        self.next_source = max(0, self.next_source - n)

    def late(self, n: int) -> None:
        """Hold one back, and copy those after it; or copy what was held back."""
        if self.held_back:
            self._put(self.held_back.pop())
        elif self.next_source < len(self.source):
            self.held_back.append(self.source[self.next_source])
            self.next_source += 1
            self.copy(n)

    def alien(self, n: int) -> None:
        """Put what no reader of the source is given: a record that is no probe, or an aborted one."""
        self._put(Row(0, self.random.choice([None, Identity(9, 0, 0, n)]), self.now_ns, refusal="foreign"))

    def look(self, n: int, *, whole: bool = False) -> None:
        """A round that reads both logs to the end, or breaks off anywhere."""
        target = len(self.target) if whole else self.random.randint(self.read[1], len(self.target))
        source = len(self.source) if whole else self.random.randint(self.read[0], len(self.source))
        news = PartitionRound(
            tuple(self.source[self.read[0] : source]),
            tuple(self.target[self.read[1] : target]),
            source_complete=source == len(self.source),
            target_complete=target == len(self.target),
        )
        self.read = [source, target]
        self.now_ns += n * S
        said, over = self.mirror.fold(Round(self.now_ns, {0: news}))
        for question in self.mirror.questions(self.now_ns):
            found = self.mirror.confirm(question, self.answer(question), self.now_ns)
            for one in found:
                assert not gone(one) & {row.identity for row in self.target if row.offset < question.target[1]}
            said += found
        self.said += said
        self.over += over

    def wait(self, n: int) -> None:
        self.now_ns += n * S

    def answer(self, question: Question) -> Answer:
        (a, b), (c, d) = question.source, question.target
        return Answer(
            frozenset((row.offset, row.identity) for row in self.source if row.identity and a <= row.offset < b),
            0,
            frozenset(row.identity for row in self.target if row.identity and c <= row.offset < d),
        )

    def rest(self) -> None:
        for _ in range(3):
            self.look(11, whole=True)

    def kinds(self) -> set[str]:
        return {one.kind for one in self.said}


def gone(violation: Violation) -> set[Identity | None]:
    return {run.part(at, 1).identity for run in violation.runs for at in range(run.size)}


@given(STEPS, st.integers(0, 2**31))
def test_each_probe_that_is_skipped_is_found_by_identity_and_no_other_is_said(
    steps: list[tuple[str, int]], seed: int
) -> None:
    world = World(seed)
    for step, n in steps:
        getattr(world, step)(n)
    world.rest()
    gaps = [one for one in world.said if one.kind == "mirror-gap"]
    ended = {one.key("b") for one in world.over}
    there = {row.identity for row in world.target}
    copied = [row.offset for row in world.source if row.identity in there]
    first = next((row.identity for row in world.target if row.identity in {one.identity for one in world.source}), None)
    begin = next((row.offset for row in world.source if row.identity == first), 0)
    missing = {
        row.identity
        for row in world.source
        if row.identity not in there and copied and begin < row.offset < max(copied)
    }
    still = [one for one in gaps if one.key("b") not in ended]
    assert {one for gap in still for one in gone(gap)} - there == missing
    assert all(gone(gap) & missing for gap in still)
    offsets = {row.identity: row.offset for row in world.source}
    for gap in gaps:
        for run in gap.runs:
            assert run.offset == offsets[run.identity]
    assert world.mirror.view(world.now_ns).missing == len(missing)


@given(st.lists(st.tuples(st.sampled_from(["write", "copy", "look", "wait"]), st.integers(1, 6))), st.integers(0, 9))
def test_a_mirror_that_only_lags_is_silent(steps: list[tuple[str, int]], seed: int) -> None:
    world = World(seed)
    for step, n in steps:
        getattr(world, step)(n)
    world.rest()
    assert (world.said, world.over) == ([], [])
    world.copy(10**6)
    world.look(1, whole=True)
    assert world.mirror.view(world.now_ns).waiting == 0


@given(STEPS, st.integers(0, 2**31), st.integers(0, 100), st.integers(0, 200))
def test_a_translated_offset_skips_what_lies_below_it_only(
    steps: list[tuple[str, int]], seed: int, upstream: int, downstream: int
) -> None:
    world = World(seed)
    for step, n in steps:
        if step not in {"alien", "look"}:
            getattr(world, step)(n)
    world.rest()
    told = world.mirror.partitions[0].pairs.translated(Checkpoint("g", 0, upstream, 100 + downstream))
    known = {row.identity: row.offset for row in world.source}
    paired = {s for i, s in known.items() if i and world.mirror.partitions[0].pairs.source_of(i) is not None}
    latest = {known[row.identity]: row.offset for row in world.target}
    if not paired or upstream < min(paired):
        assert told.unknown
        return
    wanted = {s for s in paired if s >= upstream and latest[s] < 100 + downstream}
    assert (told.skips, told.first) == (len(wanted), min(wanted, default=None))


@given(st.lists(st.integers(1, 3), max_size=40), st.lists(st.integers(0, 60), max_size=20), st.integers(0, 90))
def test_runs_are_the_probes_that_were_put_in_and_not_taken(steps: list[int], taken: list[int], below: int) -> None:
    runs, plain, offset = Runs(), {}, 0
    for sequence, step in enumerate(steps):
        offset += step
        identity = Identity(1, 0, 0, sequence)
        runs.append(Run(offset, 1, identity, sequence * S, sequence * S, whole=True))
        plain[identity] = offset
    for sequence in taken:
        one = runs.take(identity := Identity(1, 0, 0, sequence))
        assert (None if one is None else one.offset) == plain.pop(identity, None)
    assert [runs.find(identity) for identity in plain] == list(plain.values())
    cut = runs.take_below(below)
    assert sum(run.size for run in cut) == sum(offset < below for offset in plain.values())
    assert [run.offset + at for run in runs for at in range(run.size)] == [o for o in plain.values() if o >= below]
    assert runs.probes == sum(o >= below for o in plain.values())
    assert {run.first_ns + at * S for run in runs for at in range(run.size)} <= {i.sequence * S for i in plain}
