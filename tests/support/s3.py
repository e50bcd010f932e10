"""An object store that speaks S3, on loopback: moto's server, which keeps everything in memory."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import fsspec
import httpx

from canary.lab.state import free_ports
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

_START_S = 60.0


@contextmanager
def object_store(bucket: str) -> Iterator[dict[str, str]]:
    """Serve an empty bucket; yield the environment in which every client of S3 finds it."""
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(
            lambda: httpx.put(f"{url}/{bucket}", timeout=_START_S).is_success, _START_S, "the object store has a bucket"
        )
        yield {
            "AWS_ENDPOINT_URL_S3": url,
            "AWS_ACCESS_KEY_ID": "canary",
            "AWS_SECRET_ACCESS_KEY": "canary",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
    finally:
        server.kill()
        server.wait()


def shipped(url: str) -> set[str]:
    """Return the clusters of which a probe log there has probes; its files are named after them."""
    files = fsspec.filesystem("s3", skip_instance_cache=True).glob(f"{url}/probes/**/*.parquet")
    return {path.rsplit("/", 1)[1].split("--")[0] for path in files}
