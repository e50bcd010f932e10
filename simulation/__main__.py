"""python -m simulation: look for a life in which the canary misses a loss, says a false one, or stands still."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from canary.workloads.catalogue import WORKLOADS
from simulation.harms.catalogue import HARMS
from simulation.life.coverage import table
from simulation.search.search import Found, lived, searched
from simulation.search.shrinking import regression, shrunk, told
from simulation.world.outcome import Outcome
from simulation.world.plan import Given


def main() -> int:
    """Search; return 1 if a life went wrong, else 0."""
    parser = _parser()
    options = parser.parse_args()
    given = Given(
        hours=options.hours,
        grain=options.grain,
        pace=options.pace,
        partitions=options.partitions,
        modes=options.modes,
    )
    if options.seed is not None:
        outcome, cpu_s = lived(options.seed, **given)
        print(told(outcome))
        print(f"{outcome.seconds:,.0f} virtual s in {cpu_s:.2f} CPU-s: {outcome.seconds / cpu_s:,.0f} a CPU-second")
        _write(options.regression, [outcome] if outcome.wrong else [])
        return 1 if outcome.wrong else 0
    if options.seeds is None and options.cpu_seconds is None:
        parser.error("say how long to search: --seeds or --cpu-seconds")
    found, wrong = Found(), list[Outcome]()
    lives = searched(options.first, options.seeds, cpu_seconds=options.cpu_seconds, jobs=options.jobs, **given)
    for outcome, found in lives:  # the last one is printed
        if outcome.wrong:
            wrong.append(outcome if options.no_shrink else shrunk(outcome))
            print(told(wrong[-1]), flush=True)
            _write(options.regression, wrong)
            if options.until_wrong:
                break
        if found.lives % 20 == 0:
            print(f"... {found}", file=sys.stderr, flush=True)
    print(table(found.pairs, HARMS))
    print(found)
    return 1 if found.wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, metavar="N", help="how many lives; without it as long as --cpu-seconds")
    parser.add_argument("--first", type=int, default=1, metavar="SEED", help="the first life's seed")
    by_seed = parser.add_argument_group("what follows from the seed unless it is said")
    by_seed.add_argument("--hours", type=float, help="virtual hours of each life")
    by_seed.add_argument("--grain", type=float, help="s between probes")
    by_seed.add_argument("--pace", type=float, help="a harm in so many intervals, on average")
    by_seed.add_argument("--partitions", type=int, metavar="N", help="partitions of each probe topic")
    by_seed.add_argument("--modes", type=_modes, metavar="MODE,MODE", help=f"of {', '.join(WORKLOADS)}")
    parser.add_argument("--cpu-seconds", type=float, metavar="S", help="begin no life after so many")
    parser.add_argument("--until-wrong", action="store_true", help="end with the first life that goes wrong")
    parser.add_argument("--jobs", type=int, help="processes (default: one a processor)")
    parser.add_argument("--seed", type=int, help="live this one alone, and tell it")
    parser.add_argument("--no-shrink", action="store_true", help="tell lives that went wrong as they were")
    parser.add_argument("--regression", type=Path, metavar="FILE", help="write tests of the lives that went wrong")
    return parser


def _modes(text: str) -> tuple[str, ...]:
    modes = tuple(text.split(","))
    for mode in modes:
        source = WORKLOADS[mode].source if mode in WORKLOADS else None
        if mode not in WORKLOADS or (source is not None and source not in modes):
            missing = f"{mode} needs {source}" if source else f"there is no mode {mode!r}"
            raise argparse.ArgumentTypeError(missing)
    return modes


def _write(file: Path | None, wrong: list[Outcome]) -> None:
    if file is not None and wrong:
        file.write_text(regression(wrong))


if __name__ == "__main__":
    sys.exit(main())
