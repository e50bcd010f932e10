"""The main workload's writer, on a topic that is set like a production topic (canary.runner.topics)."""

from canary.probing.idempotent import make

__all__ = ["make"]
