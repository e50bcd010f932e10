"""python -m tests.world: look for a life in which the canary misses a loss, says a false one, or stands still."""

from __future__ import annotations

import argparse
import sys

from tests.world.coverage import table
from tests.world.search import Found, lived, searched
from tests.world.shrinking import shrunk, told


def main() -> int:
    """Search; return 1 if a life went wrong, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.world", description=__doc__)
    parser.add_argument("--seeds", type=int, metavar="N", help="how many lives; without it as long as --cpu-seconds")
    parser.add_argument("--first", type=int, default=1, metavar="SEED", help="the first life's seed")
    parser.add_argument("--hours", type=float, help="virtual hours of each life (default: as the seed says)")
    parser.add_argument("--grain", type=float, help="s between probes (default: as the seed says)")
    parser.add_argument(
        "--pace", type=float, help="a harm in so many intervals, on average (default: as the seed says)"
    )
    parser.add_argument("--cpu-seconds", type=float, metavar="S", help="begin no life after so many")
    parser.add_argument("--until-wrong", action="store_true", help="end with the first life that goes wrong")
    parser.add_argument("--jobs", type=int, help="processes (default: one a processor)")
    parser.add_argument("--seed", type=int, help="live this one alone, and tell it")
    parser.add_argument("--no-shrink", action="store_true", help="tell lives that went wrong as they were")
    options = parser.parse_args()
    if options.seed is not None:
        outcome, cpu_s = lived(options.seed, options.hours, options.grain, options.pace)
        print(told(outcome))
        print(f"{outcome.seconds:,.0f} virtual s in {cpu_s:.2f} CPU-s: {outcome.seconds / cpu_s:,.0f} a CPU-second")
        return 1 if outcome.wrong else 0
    if options.seeds is None and options.cpu_seconds is None:
        parser.error("say how long to search: --seeds or --cpu-seconds")
    found = Found()
    lives = searched(
        options.first,
        options.seeds,
        hours=options.hours,
        grain=options.grain,
        pace=options.pace,
        cpu_seconds=options.cpu_seconds,
        jobs=options.jobs,
    )
    for outcome, found in lives:  # the last one is printed
        if outcome.wrong:
            print(told(outcome if options.no_shrink else shrunk(outcome)), flush=True)
            if options.until_wrong:
                break
        if found.lives % 20 == 0:
            print(f"... {found}", file=sys.stderr, flush=True)
    print(table(found.pairs))
    print(found)
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
