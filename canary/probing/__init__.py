"""Producers and consumers of the canary's probes. They act and put facts into an inbox; they never judge.

Each is a thread (canary.threads.worker) with a client of its own, so that none slows another. A *writer* is the thread
of one workload: the module of that name has its ``make(wiring)``, and ``base`` has what all of them share. ``readers``
are the consumers that see every probe.

The order of facts is kept here: ``Sent`` is in the inbox before produce() is called, ``Positioned`` before the first
``Polled`` that follows from it, ``RereadEnded`` after the last.
"""
