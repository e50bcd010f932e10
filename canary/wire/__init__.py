"""Questions of the Kafka protocol that librdkafka does not ask: put by kafka-python, which has the whole protocol.

Of the two libraries on PyPI that have every request, kio is only the codec (7.4 MB, of which Metadata, FindCoordinator
and the like take 0.9 s to import), and connections, TLS and SASL would be ours. kafka-python 3 has these, too, has
no dependencies, and takes 0.6 MB as a wheel, 0.4 s and 23 MB when it is loaded. So it is loaded only by whoever asks.

* ``properties``: what a client of librdkafka is configured with, as kafka-python takes it;
* ``client``: a connection that is opened and closed for a few questions, and a question to one broker;
* ``fetch``: a Fetch from one replica, as bytes; ``records``, ``compression``: the batches and records in them;
* ``epochs``: where leader epochs begin and end in a log (KIP-320);
* ``replicas``: leaders, ISR and ELR (KIP-966); ``quorum``: the controllers of a KRaft cluster (KIP-836);
* ``broker_view``: one broker's own view, over a plain socket, for the lab;
* ``transactions``: DescribeProducers, ListTransactions and DescribeTransactions (KIP-664).
"""
