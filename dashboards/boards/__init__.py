"""The Grafana dashboards, one file each."""
