"""``canary up``: runner, API and scheduler as children of one supervisor, with the embedded lab where one is wanted.

Each child is a process of its own, so that a busy one does not slow the others; all of them die with the supervisor,
however it ends.
"""

import contextlib
import ctypes
import http.client
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from canary.errors import FAILED, UserError
from canary.extras import lacking, require_for_url
from canary.lab import Lab, LabError, NodeProperties
from canary.settings import Settings
from canary.settings.serving import ApiSettings

log = structlog.get_logger(__name__)

PARTS = ("run", "serve", "schedule")
_GRACE_S = 16.0
_LOOK_S = 0.2
_FIRST_BACKOFF_S = 1.0
_MOST_BACKOFF_S = 30.0
_STEADY_S = 60.0
_FINAL = frozenset({2, 4})
"""Exit statuses that a restart cannot mend: bad settings, and a name that is taken."""
_PR_SET_PDEATHSIG = 1


@dataclass
class Child:
    """One part as a process."""

    part: str
    process: subprocess.Popen[bytes]
    started: float
    backoff: float = _FIRST_BACKOFF_S
    again_at: float | None = None


def embedded_lab(settings: Settings, progress: Callable[[str, int, int], None] | None = None) -> Lab | None:
    """Start the lab if a cluster wants it; None if none does.

    Raises:
        LabError: it does not start.
    """
    if not any(cluster.embedded for cluster in settings.clusters):
        return None
    wanted = settings.lab
    lab = Lab(
        wanted.directory,
        wanted.brokers,
        version=wanted.version,
        heap=wanted.heap,
        properties=NodeProperties(
            {"min.insync.replicas": min(2, wanted.brokers), "auto.create.topics.enable": "false"}
        ),
        proxied=True,
        die_with_parent=True,
    )
    try:
        lab.start(progress)
    except LabError:
        stale = Lab.attach(wanted.directory)
        if not stale.alive():
            raise
        log.warning("lab_left_over", directory=str(wanted.directory))
        stale.stop(hard=True)
        lab.start(progress)
    return lab


def parts(settings: Settings) -> tuple[str, ...]:
    """Return the parts that can run: all; without Spark all but the scheduler, and the log has a warning.

    Raises:
        UserError: a setting needs an extra that is not installed.
    """
    require_for_url(settings.store.url.get_secret_value(), "store.url")
    require_for_url(settings.probe_log.url, "probe_log.url")
    missing = lacking("spark", "reconciling every night")
    if missing is None:
        return PARTS
    log.warning("nights_are_not_reconciled", reason=missing)
    return tuple(part for part in PARTS if part != "schedule")


def environment(settings: Settings, bootstrap: str | None, base: Mapping[str, str]) -> dict[str, str]:
    """Return the children's environment: where the embedded lab is, if there is one."""
    found = dict(base)
    if bootstrap is not None:
        index = next(i for i, cluster in enumerate(settings.clusters) if cluster.embedded)
        found[f"CANARY_CLUSTERS__{index}__KAFKA__BOOTSTRAP_SERVERS"] = bootstrap
    return found


def up(
    settings: Settings,
    config: Path | None,
    verbosity: int,
    stopping: threading.Event,
    *,
    progress: Callable[[str, int, int], None] | None = None,
    announce: Callable[[str], None],
) -> int:
    """Run everything until ``stopping``; return the exit status: not 0 if the runner could not stop well.

    Raises:
        UserError: a part ended in a way that starting it again cannot mend.
        LabError: the embedded brokers do not start.
    """
    wanted = parts(settings)
    lab = embedded_lab(settings, progress)
    children: list[Child] = []
    try:
        env = environment(settings, lab.bootstrap if lab else None, os.environ)
        options = [*(["--config", str(config)] if config else []), *(["-v"] * verbosity)]
        children = [_start(part, options, env) for part in wanted]
        announced = False
        while not stopping.wait(_LOOK_S):
            if not announced and _answers(settings.api):
                announced = True
                announce(f"{settings.api.local_address}/")
            for child in children:
                _look_after(child, options, env)
    finally:
        _end(children)
        if lab is not None:
            lab.stop()
    return FAILED if any(child.part == "run" and child.process.returncode == FAILED for child in children) else 0


def _answers(settings: ApiSettings) -> bool:
    """Return whether the API answers /healthz."""
    if settings.tls is None:
        asking = http.client.HTTPConnection(settings.host, settings.port, timeout=1.0)
    else:
        unchecked = ssl._create_unverified_context()  # noqa: S323, SLF001  # our own, asked if it lives
        asking = http.client.HTTPSConnection(settings.host, settings.port, timeout=1.0, context=unchecked)
    with contextlib.closing(asking):
        try:
            asking.request("GET", "/healthz")
            return asking.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False


def _start(part: str, options: Sequence[str], env: Mapping[str, str]) -> Child:
    parent = os.getpid()
    libc = ctypes.CDLL(None, use_errno=True)

    def die_with_parent() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(0)

    process = subprocess.Popen(  # noqa: S603  # ourselves
        [sys.executable, "-m", "canary.cli", part, *options],
        env=dict(env),
        preexec_fn=die_with_parent,  # noqa: PLW1509  # one libc call, and no threads of ours at that point
    )
    log.debug("part_started", part=part, pid=process.pid)
    return Child(part, process, time.monotonic())


def _look_after(child: Child, options: Sequence[str], env: Mapping[str, str]) -> None:
    now = time.monotonic()
    if child.again_at is not None:
        if now >= child.again_at:
            again = _start(child.part, options, env)
            child.process, child.started, child.again_at = again.process, again.started, None
        return
    status = child.process.poll()
    if status is None:
        return
    if status in _FINAL:
        raise UserError(f"canary {child.part} ended: see the line above", status)
    if now - child.started > _STEADY_S:
        child.backoff = _FIRST_BACKOFF_S
    log.error("part_ended", part=child.part, status=status, again_in_s=child.backoff)
    child.again_at = now + child.backoff
    child.backoff = min(child.backoff * 2, _MOST_BACKOFF_S)


def _end(children: Sequence[Child]) -> None:
    for child in children:
        if child.process.poll() is None:
            child.process.terminate()
    deadline = time.monotonic() + _GRACE_S
    for child in children:
        try:
            child.process.wait(max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            log.warning("part_killed", part=child.part)
            child.process.kill()
            child.process.wait(5)
