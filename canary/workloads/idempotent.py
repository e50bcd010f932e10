"""The main workload: each acknowledged probe of an idempotent producer is a promise."""

from canary.workloads.descriptor import Workload

WORKLOAD = Workload(
    name="idempotent",
    number=1,
    topic="main",
    every_partition=True,
    shared=True,
    summary="Idempotent producer, acks=all, no transactions: each acknowledged probe is a promise. On when no mode is "
    "named.",
    does="one probe to every partition in each `interval`, acks=all",
    finds="lost, doubled, reordered, replaced, damaged records; the base of all others",
    costs="a producer; 10 probes a second and partition as it is set",
)
