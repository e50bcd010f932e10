"""Every metric's name, type, unit, labels and help: beside the anomaly catalogue the only source for API and dashboards.

The runner measures (canary.anomalies.online gives Measurements), the store keeps the last ones, the API renders them.
Counters only rise while a ledger lives; histograms are counters per bucket.
"""

from canary.metrics.catalogue import METRICS, Measurement, Metric, metric

__all__ = ["METRICS", "Measurement", "Metric", "metric"]
