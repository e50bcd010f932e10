"""Lives of a correct Kafka, told as a history and as the canary's facts at once, broken on purpose by injections.

They are older than the world, and smaller: no cluster, no clients, one heap of events. They stay because a history of
a few seconds is what the engines are tested with, and mutations of the engines are noticed by tests on them.
``simulator.simulate`` makes one, ``injections`` breaks it, ``agreement`` compares the answers of the engines, ``wild``
makes histories that no log could have produced.
"""
