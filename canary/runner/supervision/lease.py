"""One live runner of a name in a cluster (ARCHITECTURE decision 9)."""

from collections.abc import Callable
from pathlib import Path

import structlog

from canary.runner.context import ClusterContext
from canary.settings import UserError
from canary.threads import system
from canary.threads.worker import Worker
from storage.ledger.files import Disk
from storage.store import Store, StoreError
from storage.store.repositories.leases import runner_lease
from storage.store.values import Lease

log = structlog.get_logger(__name__)

TAKEN = 4
"""Exit status of a runner whose name is taken by a live one."""
_WATCH_S = 15.0
_RENEW_S = 3.0
_LOOK_S = 0.5


class TakenError(UserError):
    """Another live runner has this name."""

    def __init__(self, cluster: str, runner: str) -> None:
        super().__init__(
            f"another live runner is called {runner} in cluster {cluster}: give this one its own runner.name, or stop "
            "the other",
            TAKEN,
        )


def claim(context: ClusterContext, directory: Path, *, watch_s: float = _WATCH_S) -> str | None:
    """Take the lease of the runner's name in its cluster, and return the holder's id; None when stopped before.

    This process has the lock on the ledger's ``directory``. If the process that is noted there as the holder has ended,
    for certain, its lease is taken over at once. Any other holder is watched on our own clock: it is dead if its
    counter has not moved for ``watch_s`` seconds.

    Raises:
        TakenError: the other holder is alive.
    """
    store, stopping, disk = context.store, context.stopping, context.disk
    cluster, runner = context.cluster.name, context.runner
    name = runner_lease(cluster, runner)
    holder = system.token_hex(16)
    note = directory / "holder"
    waited_since: float | None = None
    counter = -1
    while not stopping.is_set():
        try:
            answer = store.leases.acquire(name, holder)
            doubt = None if isinstance(answer, Lease) else _doubt(disk, note, answer.holder)
            stands_still = (
                waited_since is not None and system.monotonic() - waited_since >= watch_s and answer.counter == counter
            )
            if not isinstance(answer, Lease) and (doubt is None or stands_still):
                answer = store.leases.take_over(name, holder, answer.counter)
        except StoreError as error:
            log.warning("lease_waits_for_store", error=str(error))
            stopping.wait(_RENEW_S)
            continue
        if isinstance(answer, Lease):
            try:
                disk.close(disk.replace(note, f"{holder} {system.process_stamp()}".encode()))
            except OSError as error:  # the next start waits a little longer; the ledger reports the full disk
                log.warning("holder_not_noted", path=str(note), error=str(error))
            return holder
        if waited_since is None:
            log.info("lease_held", cluster=cluster, runner=runner, watching_s=watch_s, why=doubt)
            waited_since, counter = system.monotonic(), answer.counter
        elif answer.counter != counter:
            raise TakenError(cluster, runner)
        stopping.wait(_LOOK_S)
    return None


def _doubt(disk: Disk, note: Path, holder: str) -> str | None:
    """Return why ``holder`` may be alive; None: it is noted in this ledger, and its process has ended, for certain.

    The lock on the ledger does not prove that: a restored snapshot of a live runner's volume is locked by nobody, and
    names that runner.
    """
    try:
        text = disk.read(note).decode(errors="replace") if disk.exists(note) else ""
    except OSError as error:
        return f"the ledger's file {note.name} cannot be read: {error}"
    noted, _, stamp = text.partition(" ")
    return system.process_doubt(stamp) if noted == holder else "this ledger was not its own"


class LeaseRenewer(Worker):
    """Renews the lease; ``on_lost`` is called once when another runner has it.

    While the store cannot be reached probing goes on: no other runner can reach it and take the lease either.
    """

    def __init__(self, store: Store, cluster: str, runner: str, holder: str, on_lost: Callable[[], None]) -> None:
        super().__init__("keeper")
        self._store = store
        self._name = runner_lease(cluster, runner)
        self._holder = holder
        self._on_lost = on_lost

    def run(self) -> None:
        """Renew until stopped; then give it back."""
        while not self.stopping.wait(_RENEW_S):
            try:
                if not self._store.leases.renew(self._name, self._holder):
                    log.error("lease_lost", lease=self._name)
                    self._on_lost()
                    return
            except StoreError as error:
                log.warning("lease_not_renewed", error=str(error))
        try:
            self._store.leases.release(self._name, self._holder)
        except StoreError as error:
            log.warning("lease_not_released", error=str(error))
