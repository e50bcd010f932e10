"""All that is watched besides the probes, and the sampler and the audit, which are always there."""

from dataclasses import replace

from canary.metrics.watched.watched import Watched
from canary.runner.context import ClusterContext
from canary.runner.watching.applications import Applications
from canary.runner.watching.elections import Elections
from canary.runner.watching.mirrors import Mirrors
from canary.threads.worker import Worker
from canary.watching.groups.group_watcher import Report


class Besides:
    """The parts of applications, elections and mirrored topics.

    Args:
        report: takes what is found, and what has ended.
    """

    def __init__(self, context: ClusterContext, report: Report) -> None:
        self._applications = Applications(context, report)
        self._elections = Elections(context)
        self._mirrors = Mirrors(context, report)

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
