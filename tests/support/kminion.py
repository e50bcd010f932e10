"""kminion, where it is here: what a benchmark and the comparison run beside the canary."""

from __future__ import annotations

import json
import os
import re
import shutil
import urllib.request
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def found() -> str | None:
    """Return where kminion is: what $KMINION or the PATH leads to (github.com/redpanda-data/kminion)."""
    return os.environ.get("KMINION") or shutil.which("kminion")


def configure(file: Path, bootstrap: str, topic: str, partitions: int, interval_ms: float, port: int) -> None:
    """Write a configuration of nothing but end-to-end probing of a topic on three brokers, as its documentation has it.

    Args:
        file: to write.
        bootstrap: servers.
        topic: which it makes itself.
        partitions: of the topic in all.
        interval_ms: from one probe of a partition to the next.
        port: of its metrics.
    """
    off = {"enabled": False}
    management = {"enabled": True, "name": topic, "replicationFactor": 3, "partitionsPerBroker": partitions // 3}
    probing = {"enabled": True, "probeInterval": f"{interval_ms * 1000:.0f}us", "topicManagement": management}
    document = {
        "kafka": {"brokers": bootstrap.split(",")},
        "minion": {"consumerGroups": off, "topics": off, "logDirs": off, "endToEnd": probing},
        "exporter": {"host": "127.0.0.1", "port": port},
        "logger": {"level": "warn"},
    }
    file.write_text(json.dumps(document))


def scrape(port: int, prefix: str = "kminion_end_to_end_", timeout: float = 30.0) -> Mapping[str, float]:
    """Return the sum of each counter and gauge that begins with ``prefix``, by the rest of its name.

    Raises:
        OSError: it does not answer.
    """
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=timeout) as answer:
        text = answer.read().decode()
    sums: dict[str, float] = defaultdict(float)
    for name, value in re.findall(rf"^{prefix}(\w+)(?:\{{.*\}})? (\S+)$", text, re.MULTILINE):
        sums[name] += float(value)
    return sums
