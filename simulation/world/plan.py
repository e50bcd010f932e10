"""What a life is made from: everything follows from a plan, and a plan follows from its seed."""

import random
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypedDict, Unpack

from canary.settings import Settings
from canary.workloads.catalogue import WORKLOADS

GRAINS = (0.0, 1.0, 1.0, 5.0, 5.0, 30.0, 120.0)
"""How coarse time is, in s: how often anything that waits may wake up, and how often probes are sent (1 s at least)."""
MODES = (
    *(("idempotent",), ("transactional",), ("idempotent", "transactional"), ("plain",)) * 2,
    ("idempotent",),
    ("fencing",),
    ("idempotent", "group"),
    ("idempotent", "relay"),
    ("idempotent", "relay", "group", "fencing"),
    ("idempotent", "mirror"),
)
ORDERS = "orders"
"""The production topic that the mode ``mirror`` mirrors."""
WATCHED, WATCHED_PATTERN = "payments", "shop-*"
"""What the settings name under ``watch`` in lives that lose it: a topic, whose offsets are watched, and a pattern."""
SHOPS = ("shop-1", "shop-2")
"""The topics that the pattern matches."""
OF_WATCHED = frozenset({"lose-watched"})
"""Harms that need topics of others under ``watch``."""
PIPELINED: tuple[dict[str, Any], ...] = (
    {"batch": 200, "record_lengths": (64, 96, 128), "filling": "repeated"},
    {"batch": 100, "linger": "30ms", "in_flight": 5},
    {"batch": 200, "linger": "500ms", "in_flight": 1, "record_lengths": (128, 64)},
)
"""How a burst of probes is sent, in turns of the seed. All have keys: by these the truth knows them."""
WATCHING: dict[str, Any] = {"topics": ["*", WATCHED_PATTERN], "offsets": [WATCHED]}
SCRUB_BYTES = 80_000
"""In an interval, for three partitions or fewer: so the scrubber turns to a partition every dozen intervals, and comes
back to it within 40. Where there are more partitions, or will be, it has more: a loss is to be found in a set time."""
FROM_THE_START = frozenset({"old-brokers"})
"""Harms that strike at second 0."""
AMONG_MODES = frozenset({"switch-off"})
"""Harms that do nothing to a canary that has one mode only."""
LONGEST_RANDOM_S = 3600.0
"""What `readers.random_every` may be at most."""
BEATS = 800
"""How many intervals a life lasts, where nothing else is said."""


def beat_of(grain: float) -> float:
    """Return how often probes are sent, in s: once a second at most."""
    return max(grain, 1.0)


@dataclass(frozen=True, slots=True)
class Strike:
    """A harm at a time, in s; ``lasts`` seconds where it ends; ``seed`` is of its dice."""

    at: float
    harm: str
    lasts: float
    seed: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One life. ``hours`` are virtual; ``grain`` in s; ``unclean``: unclean elections are allowed."""

    seed: int
    hours: float
    grain: float = 1.0
    partitions: int = 3
    modes: tuple[str, ...] = ("idempotent",)
    retention_s: float = 400.0
    unclean: bool = False
    burst: int = 1
    """Probes of a partition in an interval. Where there are several they are of several sizes and linger, too."""
    random_beats: int = 0
    """In so many intervals a random place is read again; 0: never."""
    strikes: tuple[Strike, ...] = field(default=())

    @property
    def beat(self) -> float:
        """How often probes are sent, in s."""
        return beat_of(self.grain)

    @property
    def logs(self) -> int:
        """How many partitions are probed in the end, in all topics."""
        writers = sum(WORKLOADS[mode].topic != "none" for mode in self.modes)
        return self.partitions * writers + sum(one.harm == "grow-topic" for one in self.strikes)

    @property
    def watches(self) -> bool:
        """Whether there are topics of others which the settings name."""
        return any(one.harm in OF_WATCHED for one in self.strikes)

    def settings(self) -> Settings:
        """Return the canary's settings: as an operator would have them, stretched by the grain."""
        beat = self.beat
        made = Settings.model_validate(
            {
                "runner": {"name": "r", "scrub_rate": int(SCRUB_BYTES * max(self.logs / 3, 1) * self.burst / beat)},
                "store": {"url": "sqlite:///world/store.db"},
                "ledger": {"directory": "/world/ledger"},
                "probe_log": {"url": "memory://probe-log"},
                "schedule": {"reconcile": None},
                "clusters": [
                    {
                        "name": "c",
                        "kafka": {"bootstrap.servers": "127.0.0.1:9092"},
                        "topic": {
                            "partitions": self.partitions,
                            "config": {
                                "retention.ms": str(int(self.retention_s * 1000)),
                                "segment.ms": str(int(self.retention_s * 250)),
                                "unclean.leader.election.enable": str(self.unclean).lower(),
                            },
                        },
                        "modes": {mode: self._mode(mode) for mode in self.modes},
                        "watch": {"audit_interval": _duration(600 * beat)} | (WATCHING if self.watches else {}),
                        "readers": {"random_every": _duration(self.random_beats * beat) if self.random_beats else None},
                    }
                ],
            }
        )
        runner = made.runner.model_copy(update={"segment_age": 30.0 * beat})
        return made.model_copy(update={"runner": runner})

    def _mode(self, mode: str) -> dict[str, Any]:
        """Return the settings of a mode. In every other life another member joins the relay's group now and then."""
        beat = self.beat
        given: dict[str, dict[str, Any]] = {
            "fencing": {"interval": _duration(20 * beat)},
            "group": {"rebalance_every": _duration(30 * beat), "session_timeout": _duration(min(10 * beat, 1800))},
            "relay": {"rebalance_every": _duration(60 * beat)} if self.seed % 2 else {},
            "mirror": {"of": ORDERS},
        }
        shape = PIPELINED[self.seed % len(PIPELINED)] | {"burst": self.burst} if self.burst > 1 else {}
        known = {one.name for one in fields(WORKLOADS[mode].settings)}
        shape = {name: value for name, value in shape.items() if name in known}
        return {"interval": _duration(beat)} | shape | given.get(mode, {})


def _duration(seconds: float) -> str:
    """Return so many seconds as settings have them: without an exponent, which from 1e6 s on a short form has."""
    return f"{seconds:.3f}s"


class Given(TypedDict, total=False):
    """What is said of a life by whoever asks for it. What is left out, or None, follows from the seed.

    ``pace``: a harm strikes every so many intervals, on average.
    """

    hours: float | None
    grain: float | None
    pace: float | None
    partitions: int | None
    modes: tuple[str, ...] | None


def plan_of(seed: int, names: dict[str, float], **given: Unpack[Given]) -> Plan:
    """Return the plan of a seed. ``names`` are the harms there are, each with how often it is struck (a weight).

    Swarm testing: each life knows a part of the harms only, so that rare ones meet without common ones between them.
    """
    said = {key: value for key, value in given.items() if value is not None}
    dice = random.Random(seed)
    chosen: Any = {"grain": dice.choice(GRAINS)} | said
    grain = chosen["grain"]
    hours = chosen.get("hours", BEATS * beat_of(grain) / 3600)
    share = dice.choice((0.1, 0.25, 0.5))
    known = [name for name in names if dice.random() < share] or [dice.choice(list(names))]
    weights = [names[name] for name in known]
    lasts_most = 60 * max(grain, 5.0)
    strikes: list[Strike] = []
    at = 120.0 * beat_of(grain)
    chosen = {"pace": dice.choice((30.0, 100.0, 300.0))} | chosen
    pace_s = chosen["pace"] * beat_of(grain)
    while at < hours * 3600:
        at += dice.expovariate(1 / pace_s)
        name = dice.choices(known, weights)[0]
        strikes.append(
            Strike(
                0.0 if name in FROM_THE_START else at,
                name,
                dice.choice((2.0, 15.0, 45.0, lasts_most)) * dice.random(),
                dice.getrandbits(32),
            )
        )
    chosen = {"partitions": dice.choice((1, 3, 3)), "modes": dice.choice(MODES)} | chosen
    plan = Plan(
        seed=seed,
        hours=hours,
        grain=grain,
        partitions=chosen["partitions"],
        modes=chosen["modes"],
        retention_s=dice.choice((100.0, 400.0, 4000.0)) * beat_of(grain),
        unclean=dice.random() < 0.4,
        strikes=tuple(one for one in strikes if one.at < hours * 3600),
    )
    if "modes" not in said and len(plan.modes) < 2 and any(one.harm in AMONG_MODES for one in plan.strikes):
        plan = replace(plan, modes=dice.choice([modes for modes in MODES if len(modes) > 1]))
    random_beats = dice.choice((0, 0, 3)) if grain <= LONGEST_RANDOM_S / 3 else 0
    return replace(plan, burst=dice.choice((1, 1, 1, 3)), random_beats=random_beats)


def story_of(strike: Strike) -> dict[str, Any]:
    """Return a strike for people."""
    return {"at_s": round(strike.at, 1), "harm": strike.harm, "lasts_s": round(strike.lasts, 1)}
