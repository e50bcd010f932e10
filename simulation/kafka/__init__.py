"""Values of Kafka and the brokers' logs: records, producer state, copies of partitions, brokers, and the network.

``contract`` says what clients may ask. Nothing here decides anything: that is ``simulation.cluster``.
"""
