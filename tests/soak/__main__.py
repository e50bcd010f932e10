"""python -m tests.soak [kills | nights | partial]: an hour under faults that destroy nothing.

kills: kill -9 of the canary many times over. nights: a night of each cluster of a fleet, while schedulers fail.
partial: which alerts ring when a part of a cluster is slow or away, and when they end.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from canary.processes import signals
from tests.soak.kills import killed
from tests.soak.long_life import lived
from tests.soak.nights import reconciled
from tests.soak.partial import rang

if TYPE_CHECKING:
    from collections.abc import Iterator


def main() -> int:
    """Do it; return 1 if something is wrong, else 0."""
    options = _options()
    stopping = signals.stop_on_signals()
    print(f"seed {options.seed}", flush=True)
    with _directory(options.keep) as directory:
        if options.what == "kills":
            wrong = killed(directory, stopping, _tell, times=options.times, seed=options.seed)
        elif options.what == "nights":
            wrong = reconciled(directory, stopping, _tell, clusters=options.clusters, seed=options.seed)
        elif options.what == "partial":
            wrong = rang(directory, stopping, _tell, shorten=options.shorten, only=options.only, write=options.write)
        else:
            wrong = lived(directory, stopping, _tell, minutes=options.minutes, rate=options.rate, seed=options.seed)
    for one in wrong:
        _tell(f"WRONG: {one}")
    _tell("wrong" if wrong else "nothing is wrong")
    return 1 if wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("life", "kills", "nights", "partial"), default="life")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long a life is")
    parser.add_argument("--rate", type=int, default=1000, help="probes a second of a life")
    parser.add_argument("--times", type=int, default=100, help="how many kills")
    parser.add_argument("--clusters", type=int, default=50, help="of a fleet whose nights are done")
    parser.add_argument("--shorten", type=int, default=1, help="how many times shorter windows and holds of rules are")
    parser.add_argument("--only", default="", metavar="PATTERN", help="which partial outages, by their titles")
    parser.add_argument("--write", action="store_true", help="write the table of what rang to docs/partial-outage.md")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6, help="of what happens when")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep logs, data and measurements here")
    return parser.parse_args()


@contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        yield keep.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="canary-soak-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


def _tell(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
