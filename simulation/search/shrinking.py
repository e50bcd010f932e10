"""Makes a life that went wrong as short as it can be, tells it, and writes a regression test of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from canary.workloads.catalogue import WORKLOADS
from simulation.life.life import live
from simulation.world.outcome import Outcome
from simulation.world.plan import Plan, Strike


def shrunk(outcome: Outcome, tries: int = 200, on_try: Callable[[int, Plan], None] = lambda *_: None) -> Outcome:
    """Return the shortest life found in which something of the same kind goes wrong, after at most so many tries."""
    best, kinds = outcome, {one.what for one in outcome.wrong}
    done = 0
    found = True
    while found and done < tries:
        found = False
        for plan in _shorter(best.plan):
            done += 1
            on_try(done, plan)
            again = live(plan)
            if kinds & {one.what for one in again.wrong}:
                best, found = again, True
                break
            if done >= tries:
                break
    return best


def _shorter(plan: Plan) -> Iterator[Plan]:
    """Yield simpler plans, those that leave out most first."""
    strikes = plan.strikes
    size = len(strikes) // 2
    while size:
        for start in range(0, len(strikes), size):
            yield _with(plan, strikes[:start] + strikes[start + size :])
        size //= 2
    yield from _smaller(plan)
    for number, one in enumerate(strikes):
        if one.lasts > 4:
            shorter = dataclasses.replace(one, lasts=one.lasts / 2)
            yield _with(plan, (*strikes[:number], shorter, *strikes[number + 1 :]))


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Yield plans with the same harms, and less beside them."""
    strikes = plan.strikes
    if plan.partitions > 1:
        yield dataclasses.replace(plan, partitions=1)
    if len(plan.modes) > 1:
        for mode in plan.modes:
            source = WORKLOADS[mode].source
            fewer = (mode,) if source is None else (source, mode)
            if len(fewer) < len(plan.modes):
                yield dataclasses.replace(plan, modes=fewer)
    if strikes:
        hours = (strikes[-1].at + strikes[-1].lasts + 10 * plan.grain) / 3600
        if hours < plan.hours * 0.9:
            yield dataclasses.replace(plan, hours=hours)
        first = strikes[0].at - 60 * plan.grain
        if first > 60 * plan.grain:
            moved = tuple(dataclasses.replace(one, at=one.at - first) for one in strikes)
            yield dataclasses.replace(plan, strikes=moved, hours=plan.hours - first / 3600)


def _with(plan: Plan, strikes: tuple[Strike, ...]) -> Plan:
    return dataclasses.replace(plan, strikes=strikes)


def told(outcome: Outcome) -> str:
    """Return a life as a story that a person can follow; and the plan, in a regression test's file if it went wrong."""
    plan = outcome.plan
    lines = [
        (
            f"seed {plan.seed}: {plan.hours:.3f} h at {plan.grain:g} s, {plan.partitions} partitions, "
            f"{' and '.join(plan.modes)}, retention {plan.retention_s:g} s, unclean elections {plan.unclean}, "
            f"bursts of {plan.burst}, a random read in {plan.random_beats} intervals"
        ),
        *(f"  {at:10.1f} s  {words}" for at, words in outcome.story),
        *(f"  {one.what}: {one.about}" for one in outcome.wrong),
        *(["  a regression test of it:", "", regression([outcome])] if outcome.wrong else [f"  it was {plan!r}"]),
    ]
    return "\n".join(lines)


def regression(outcomes: Sequence[Outcome]) -> str:
    """Return the file of a test in which each of these lives is to go right; pytest runs it as it is."""
    head = (
        '"""Lives in the simulated world that once went wrong."""\n\n'
        "from simulation.life.life import live\n"
        "from simulation.world.plan import Plan, Strike\n"
        "from simulation.search.shrinking import told\n"
    )
    return head + "".join(f"\n\n{_test_of(one)}" for one in outcomes)


def _test_of(outcome: Outcome) -> str:
    plan = outcome.plan
    kinds = list(dict.fromkeys(one.what for one in outcome.wrong))
    name = f"test_seed_{plan.seed}_goes_right" if not kinds else f"test_seed_{plan.seed}_is_not_{_snake(kinds)}"
    fields = [(one.name, getattr(plan, one.name)) for one in dataclasses.fields(plan) if one.name != "strikes"]
    strikes = [
        f'Strike(at={one.at!r}, harm="{one.harm}", lasts={one.lasts!r}, seed={one.seed}),' for one in plan.strikes
    ]
    inner = (
        "".join(f"\n            {strike}" for strike in strikes) + "\n        "
        if len(strikes) > 1
        else "".join(strikes)
    )
    about = [f"    # Once {one.what}: {' '.join(one.about.split())}"[:118].rstrip() for one in outcome.wrong[:3]]
    lines = [
        f"def {name}() -> None:",
        *about,
        "    plan = Plan(",
        *(f"        {key}={_literal(value)}," for key, value in fields),
        f"        strikes=({inner}),",
        "    )",
        "    outcome = live(plan)",
        "    assert outcome.wrong == [], told(outcome)",
    ]
    return "\n".join(lines) + "\n"


def _snake(kinds: Sequence[str]) -> str:
    return "_nor_".join(kind.lower().replace(" ", "_") for kind in kinds)


def _literal(value: object) -> str:
    """Return a value as ruff would have it."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_literal, value))}{',' * (len(value) == 1)})"
    return f'"{value}"' if isinstance(value, str) else repr(value)
