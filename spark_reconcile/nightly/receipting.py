"""The check of receipts in a night: after the reconciliation, which it never fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import structlog

from spark_reconcile.errors import reason_of
from spark_reconcile.receipts import findings
from spark_reconcile.receipts.check import check
from storage.store.errors import StoreError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from canary.anomalies.violation import Violation

log = structlog.get_logger(__name__)


def night(
    spark: SparkSession,
    cluster: tuple[str, Mapping[str, Any], str, Sequence[str]],
    record: Callable[[Iterator[Violation]], tuple[int, int]],
    seen: tuple[int, str],
    before: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], list[str], int, int]:
    """Check a cluster's receipts; return a summary, sentences, and how many records were found and new violations.

    ``cluster``: its name, librdkafka properties, the URL and the topics. ``record`` puts violations on record; ``seen``
    is when (ns since the epoch), and by which reconciliation; ``before`` is the summary of the last check. A failure is
    told: then nothing is known of the receipts.
    """
    succeeded_ns = (before or {}).get("succeeded_ns")
    try:
        found = check(spark, *cluster)
        numbers = record(findings.violations(found, *seen))
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001  # whatever it is, the probes are reconciled
        why = reason_of(error)
        log.warning("receipts_not_checked", cluster=cluster[0], reason=why)
        said = f"Receipts could not be checked; of the records that they are about nothing is known: {why}"
        return {"error": why[:1000], "succeeded_ns": succeeded_ns, "unknown": 1}, [said], 0, 0
    document = findings.document(found)
    summary = {name: document[name] for name in ("verdicts", "reasons", "unmatched", "coverage", "seconds")}
    log.info("receipts_checked", cluster=cluster[0], **summary["verdicts"])
    summary |= {"succeeded_ns": succeeded_ns if found.unknown else seen[0]}
    summary |= {"records": found.total("present"), "unknown": found.unknown}
    return summary, findings.sentences(found), *numbers
