"""acks=1 without idempotence."""

from canary.workloads.descriptor import Workload

WORKLOAD = Workload(
    name="plain",
    number=6,
    ordered=False,
    every_partition=True,
    shared=True,
    summary="acks=1 without idempotence: what these settings cost the applications that have them, reported under this "
    "mode.",
    does="like `idempotent`, with acks=1 and without idempotence; off unless named",
    finds="what these settings cost the applications that have them",
    costs="a producer",
)
