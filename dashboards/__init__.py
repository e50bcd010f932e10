"""Grafana dashboards and Prometheus rules, made from code and checked in under the Helm chart.

Names, units and descriptions come from the metric catalogue (canary.metrics), kinds and advice from the anomaly
catalogue (canary.anomalies.catalogue); a new metric or anomaly reaches panels, rules and runbooks from there.
``python -m dashboards`` writes everything again; a test fails when the files no longer are what the code makes.

Several API replicas serve the same numbers, so every expression first takes ``max without (instance, pod)``
(`queries`); and every series exists from the start at 0, so that ``increase`` sees the very first violation.
"""
