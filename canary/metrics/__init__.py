"""Every metric's name, type, unit, labels and help: with the anomaly catalogue the one source for API and dashboards.

The judge measures (measuring) and publishes (published), the store keeps what each runner published last, and the API
renders it. Counters only rise while a ledger lives; histograms are counters per bucket.
"""

from canary.metrics.catalogue import METRICS
from canary.metrics.measuring import measured
from canary.metrics.metric import Measurement, Metric
from canary.metrics.published import Published

__all__ = ["METRICS", "Measurement", "Metric", "Published", "measured"]
