"""All that is watched besides the probes, and the sampler and the audit, which are always there."""

from collections.abc import Sequence
from dataclasses import replace

from canary.anomalies.violation import Violation
from canary.metrics.watched.watched import Watched
from canary.runner.context import ClusterContext
from canary.runner.watching.applications import Applications
from canary.runner.watching.elections import Elections
from canary.runner.watching.mirrors import Mirrors
from canary.threads.worker import Worker


class Besides:
    """The parts of applications, elections and mirrored topics.

    Args:
        gaps: of mirrored topics, which the ledger has found again and the store may not have yet.
    """

    def __init__(self, context: ClusterContext, gaps: Sequence[Violation] = ()) -> None:
        self._applications = Applications(context)
        self._elections = Elections(context)
        self._mirrors = Mirrors(context, gaps)

    @property
    def parts(self) -> list[Worker]:
        """The threads."""
        return [*self._applications.parts, *self._elections.parts, *self._mirrors.parts]

    @property
    def latest(self) -> Watched:
        """What is known now."""
        elections = tuple(self._elections.measurements())
        return replace(self._applications.latest, mirrors=self._mirrors.latest, elections=elections)

    def leave(self) -> None:
        """End what holds: the parts are stopped, and whoever comes after them knows nothing of it."""
        self._applications.leave()
        self._mirrors.leave()

    def renew(self) -> None:
        """Make the parts anew, not started."""
        self._applications.renew()
        self._elections.renew()
        self._mirrors.renew()
