"""The digests of a night: made after the reconciliation, compared with those before, kept once that is on record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import structlog

from spark_reconcile.digests import findings
from spark_reconcile.digests.keeping import Kept
from spark_reconcile.digests.night import Wanted, digest
from spark_reconcile.errors import reason_of
from storage.store.errors import StoreError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from canary.anomalies.violation import Violation

log = structlog.get_logger(__name__)


def night(
    spark: SparkSession,
    wanted: Wanted,
    folder: str,
    record: Callable[[Iterator[Violation]], tuple[int, int]],
    seen: tuple[int, str],
) -> tuple[dict[str, Any], int, int]:
    """Make a cluster's digests; return their summary, and how many records were found, and new violations.

    ``record`` puts violations on record; ``seen`` is when (ns since the epoch), and by which reconciliation. A failure
    is no failure of the reconciliation: the summary has the ``error``, and everything is unknown.
    """
    kept: Kept | None = None
    try:
        kept = Kept(folder)
        found, trees = digest(spark, wanted, kept)
        numbers = record(findings.violations(found, *seen))
        kept.save(trees)
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001  # whatever it is, the probes are reconciled
        why = reason_of(error)
        log.warning("digests_failed", cluster=wanted.cluster, reason=why)
        trees_before = kept.trees if kept is not None else None
        unknown = max(1, len(trees_before.trees)) if trees_before is not None else 1
        succeeded = trees_before.succeeded_ns if trees_before is not None else None
        return {"error": why[:1000], "succeeded_ns": succeeded, "unknown_partitions": unknown}, 0, 0
    summary = found.summary()
    log.info("digested", cluster=wanted.cluster, **{name: summary[name] for name in _LOGGED})
    return summary | {"succeeded_ns": trees.succeeded_ns, "unknown_partitions": found.not_known}, *numbers


_LOGGED = ("records", "records_read", "verified", "taken_over", "lost", "replaced", "changed", "seconds")
