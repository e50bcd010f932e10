"""Merges the probe log's small files, in a process that the scheduler starts once an hour.

Never during a reconciliation: the scheduler claims none before this has ended, starts this only when none runs, and
names the clusters that it leads, because other schedulers may be reading the files of other clusters. A failure is
logged, and the next try comes an hour later; nothing is lost by it (storage.probe_log.compacting).
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence

import structlog

from canary.settings import UserError, load
from storage.probe_log.compacting import compact
from storage.probe_log.errors import ProbeLogError

log = structlog.get_logger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compact the probe log that the settings name; exit status 1 if it could not be done now."""
    parser = argparse.ArgumentParser(prog="python -m spark_reconcile.nightly.compaction", description=main.__doc__)
    parser.add_argument("--config")
    parser.add_argument("--cluster", action="append")
    options, _ = parser.parse_known_args(arguments)
    began = time.monotonic()
    try:
        settings = load(options.config, os.environ)
        fewer = compact(settings.probe_log.url, options.cluster)
    except ProbeLogError as error:
        log.warning("probe_log_not_compacted", reason=str(error))
        return 1
    except UserError as error:
        log.error("probe_log_not_compacted", reason=str(error))  # noqa: TRY400  # no traceback
        return error.exit_status
    log.info("probe_log_compacted", files_fewer=fewer, seconds=round(time.monotonic() - began, 1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
