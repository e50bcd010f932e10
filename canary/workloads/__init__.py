"""The workloads: one file each, which says everything about a way of writing or reading that is not its algorithm.

CONTRACTS and the settings call a workload a *mode*. The wire format, settings, topic names, severities, the audit, the
sharing of partitions, the runner and docs/modes.md read the descriptors from here (``canary.workloads.catalogue``), so
that a new workload is a descriptor in this package and a worker of the same name in canary.probing. Standard library
only, because canary.probe takes the wire numbers from here.
"""
