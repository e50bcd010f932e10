"""Many clients at once, which cost little themselves: raw HTTP/1.1 over connections that stay open."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Served:
    """A server: its process and its port."""

    process: psutil.Process
    port: int


@dataclass(frozen=True)
class Load:
    """What came of asking: requests, wall seconds, the server's CPU seconds, each request's latency (s), body bytes."""

    requests: int
    seconds: float
    cpu_s: float
    latencies: np.ndarray
    size: int

    @property
    def cpu_us(self) -> float:
        """The server's CPU for one request (microseconds)."""
        return self.cpu_s / self.requests * 1e6

    @property
    def per_second(self) -> float:
        """Requests a second, as the clock had it."""
        return self.requests / self.seconds

    def percentile(self, q: float) -> float:
        """Return a percentile of the latencies (ms)."""
        return float(np.percentile(self.latencies, q)) * 1e3


@contextmanager
def serving(*arguments: str) -> Iterator[Served]:
    """Run `tests.benchmarks.api_serving` with these arguments."""
    command = [sys.executable, "-m", "tests.benchmarks.api_serving", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        try:
            port = next(line for line in process.stdout if line.strip().isdigit())  # its log is there, too
            yield Served(psutil.Process(process.pid), int(port))
        finally:
            process.stdin.close()
            process.wait(20)


def ask(server: Served, path: str, *, clients: int, requests: int, headers: str = "") -> Load:
    """Ask for ``path`` so many times altogether, from so many clients at once; every answer must be 200."""
    return asyncio.run(_ask(server, path, clients, requests, headers))


async def _ask(server: Served, path: str, clients: int, requests: int, headers: str) -> Load:
    latencies: list[float] = []
    sizes: set[int] = set()
    left = requests
    message = f"GET {path} HTTP/1.1\r\nHost: canary\r\n{headers}\r\n".encode()

    async def client() -> None:
        nonlocal left
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=2**24)
        while left > 0:
            left -= 1
            began = time.perf_counter()
            writer.write(message)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            latencies.append(time.perf_counter() - began)
            sizes.add(length)
        writer.close()
        await writer.wait_closed()

    before, began = _cpu(server), time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    seconds = time.perf_counter() - began
    return Load(len(latencies), seconds, _cpu(server) - before, np.array(latencies), max(sizes))


def _cpu(server: Served) -> float:
    used = server.process.cpu_times()
    return float(used.user + used.system)
