"""The writer of a workload, made with the runner's values."""

import importlib
from collections.abc import Callable

from canary.probing.base import Renewal, Wiring, Writer
from canary.probing.readers.consumer import Target
from canary.runner.cluster.identities import Identities
from canary.runner.context import ClusterContext
from canary.workloads.catalogue import WORKLOADS


def make(context: ClusterContext, identities: Identities, under: Renewal, targets: Callable[[str], Target]) -> Writer:
    """Return the writer of a mode, not started: canary.probing has a module of its writer's name, which makes it.

    ``under`` is the generation that was begun for it; ``targets`` returns a topic's present incarnation.
    """
    mode = identities.mode
    wiring = Wiring(
        cluster=context.cluster,
        mode=mode,
        topic=identities.topic,
        settings=context.cluster.modes.declared()[mode],
        first=identities.first,
        producer_id=identities.producer_id,
        under=under,
        renew=identities.renew,
        targets=targets,
        inbox=context.inbox,
        clock=context.clock,
        meters=context.meters,
    )
    writer: Writer = importlib.import_module(f"canary.probing.{WORKLOADS[mode].writer or mode}").make(wiring)
    return writer
