"""Real Kafka on one machine, to be treated badly.

A *lab* is one KRaft controller (or three) and n brokers, each a Java process of its own on 127.0.0.1, with its own data
directory, small heaps and timeouts of seconds instead of minutes (FIELD-NOTES "Running brokers fast"). Brokers can be
killed (-9), paused (SIGSTOP), resumed, restarted, added, removed, and their logs cut short: what a crash does to a
broker that never fsynced (why-fsync.txt). Their disks can be full, empty or old, their versions of Kafka differ, and
their network fail (canary.lab.proxy).

    with Lab(directory, brokers=3, properties=NodeProperties(brokers={"min.insync.replicas": "2"})) as lab:
        ...  # lab.bootstrap
        lab.kill(1)
        lab.truncate(1, "probes", 0, bytes=10)
        lab.restart(1)

All that is known of a lab is in its directory, so another process can use a running one (``Lab.attach(directory)``),
and a lab that was stopped can be started again with its data:

    lab.json                     version, cluster id, properties, and port of each node
    actions.log                  what was done to which node, and when; see canary.lab.events
    controller/, broker-<id>/    server.properties, log4j configuration, console.log, server.log, events.log, pid, data/
    controller-<id>/             the same of the second and third controller
    proxy/                       of a lab with a network that can fail; see canary.lab.proxy
    copies/                      data of nodes, kept aside

Nothing here needs root, a container or the network once the jars are there (canary.lab.jars.cache).
"""

from canary.lab.errors import LabError
from canary.lab.lab import Lab
from canary.lab.proxy.faults import Cut, Delay, Fault, Hold, Lie, LoseAnswers, Redirect, ShiftFetch
from canary.lab.site import NodeStatus
from canary.lab.state import CONTROLLER, NodeProperties
from canary.wire.broker_view import PartitionState

__all__ = [
    "CONTROLLER",
    "Cut",
    "Delay",
    "Fault",
    "Hold",
    "Lab",
    "LabError",
    "Lie",
    "LoseAnswers",
    "NodeProperties",
    "NodeStatus",
    "PartitionState",
    "Redirect",
    "ShiftFetch",
]
