"""The simulated cluster: the controller, topics, coordinators, requests, faults, and bugs by switch.

``Cluster`` is a chain of classes, each of which knows the one before: ``Core`` (what all parts share), ``Requests``
(what clients ask), ``Faults`` (what can be done to it), ``Cluster``.
"""
