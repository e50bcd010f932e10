"""Downloads jars from a Maven repository, several at the same time, each checked against its pinned SHA-512."""

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import httpx

from canary.lab.errors import LabError
from canary.lab.jars.pinned_jars import Jar

_AT_ONCE = 6
_PAUSES_S = (0.5, 1.0, 2.0)
"""Between tries."""
_TIMEOUT_S = 20.0


def download(wanted: Sequence[Jar], url: str, folder: Path, arrived: Callable[[int], None]) -> None:
    """Download jars from the Maven repository ``url`` into an empty folder.

    ``arrived`` is called with how many jars are there and are the pinned ones.

    Raises:
        LabError: the repository does not answer, or gives another jar. The downloads under way end soon.
    """
    with httpx.Client(timeout=_TIMEOUT_S, follow_redirects=True) as client, ThreadPoolExecutor(_AT_ONCE) as pool:
        source = _Repository(client, httpx.URL(url.rstrip("/") + "/"), folder, Event())
        jobs = [pool.submit(source.fetch, jar) for jar in wanted]
        try:
            for done, job in enumerate(as_completed(jobs), 1):
                job.result()
                arrived(done)
        finally:
            source.ending.set()
            pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True, slots=True)
class _Repository:
    """A repository, where its jars go, and whether they are still wanted."""

    client: httpx.Client
    url: httpx.URL
    folder: Path
    ending: Event

    def fetch(self, jar: Jar) -> None:
        """Download one jar; try again where that may help."""
        for pause_s in (*_PAUSES_S, None):
            try:
                found = self._stream(jar)
                break
            except httpx.HTTPError as error:
                if pause_s is None or not _may_pass(error) or self.ending.wait(pause_s):
                    raise LabError(
                        f"{jar.name} cannot be fetched from {self.url.host}: {_reason(error)}; is the network there? "
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


def _may_pass(error: httpx.HTTPError) -> bool:
    """Return whether another try may help: the network, or the repository's own trouble."""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.is_server_error or error.response.status_code == httpx.codes.TOO_MANY_REQUESTS
    return isinstance(error, httpx.TransportError)


def _reason(error: httpx.HTTPError) -> str:
    """Return what went wrong, without the URL, which may hold a password."""
    if isinstance(error, httpx.HTTPStatusError):
        return f"status {error.response.status_code}"
    return str(error) or type(error).__name__
