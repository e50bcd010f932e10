"""Every metric's name, type, unit, labels and help: with the anomaly catalogue the one source for API and dashboards.

The runner measures (canary.anomalies.online gives Measurements), the store keeps the last ones, the API renders them.
Counters only rise while a ledger lives; histograms are counters per bucket.
"""

from canary.metrics.catalogue import METRICS, Measurement, Metric, metric
from canary.metrics.measuring import measurements

__all__ = ["METRICS", "Measurement", "Metric", "measurements", "metric"]
