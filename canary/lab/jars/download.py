"""Downloads jars from a Maven repository, some at the same time, each held against its pinned SHA-512."""

from __future__ import annotations

import hashlib
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING

import httpx
from tenacity import (
    Retrying,
    retry_if_exception,
    sleep_using_event,
    stop_after_attempt,
    stop_when_event_set,
    wait_exponential_jitter,
)

from canary.lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from canary.lab.jars import Jar

_AT_ONCE = 6
_TRIES = 4
_TIMEOUT_S = 20.0


def download(wanted: Sequence[Jar], url: str, folder: Path, arrived: Callable[[int], None]) -> None:
    """Download jars into a folder.

    Args:
        wanted: the jars.
        url: of a Maven repository.
        folder: is there, and empty.
        arrived: told how many are there and are the pinned ones.

    Raises:
        LabError: the repository does not answer, or gives another jar. The downloads under way end soon.
    """
    with httpx.Client(timeout=_TIMEOUT_S, follow_redirects=True) as client, ThreadPoolExecutor(_AT_ONCE) as pool:
        source = _Source(client, httpx.URL(url.rstrip("/") + "/"), folder, Event())
        jobs = [pool.submit(source.bring, jar) for jar in wanted]
        try:
            for done, job in enumerate(as_completed(jobs), 1):
                job.result()
                arrived(done)
        finally:
            source.ending.set()
            pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True, slots=True)
class _Source:
    """A repository, where its jars go, and whether they are still wanted."""

    client: httpx.Client
    url: httpx.URL
    folder: Path
    ending: Event

    def bring(self, jar: Jar) -> None:
        """Download one jar; try again where that may help."""
        retrying = Retrying(
            retry=retry_if_exception(_may_pass),
            stop=stop_after_attempt(_TRIES) | stop_when_event_set(self.ending),
            wait=wait_exponential_jitter(multiplier=0.2, max=3.0),
            sleep=sleep_using_event(self.ending),
            reraise=True,
        )
        try:
            found = retrying(self._stream, jar)
        except httpx.HTTPError as error:
            raise LabError(
                f"{jar.name} cannot be fetched from {self.url.host}: {_said(error)}; is the network there? "
                "CANARY_MAVEN_URL names another Maven repository"
            ) from None
        if found != jar.sha512:
            raise LabError(
                f"{jar.name} from {self.url.host} is not the jar that is pinned: its SHA-512 begins with {found[:16]}, "
                f"not with {jar.sha512[:16]}; do not trust it, and see what answers there"
            )

    def _stream(self, jar: Jar) -> str:
        """Write a jar to its file; return its SHA-512."""
        digest = hashlib.sha512()
        with self.client.stream("GET", self.url.join(jar.path)) as answer, (self.folder / jar.name).open("wb") as file:
            answer.raise_for_status()
            for part in answer.iter_bytes():
                if self.ending.is_set():
                    raise CancelledError
                digest.update(part)
                file.write(part)
        return digest.hexdigest()


def _may_pass(error: BaseException) -> bool:
    """Return whether another try may help: the network, or the repository's own trouble."""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.is_server_error or error.response.status_code == httpx.codes.TOO_MANY_REQUESTS
    return isinstance(error, httpx.TransportError)


def _said(error: httpx.HTTPError) -> str:
    """Return what went wrong, without the URL, which may hold a password."""
    if isinstance(error, httpx.HTTPStatusError):
        return f"status {error.response.status_code}"
    return str(error) or type(error).__name__
