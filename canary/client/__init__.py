"""What every part that talks to a Kafka-like cluster stands on: threads that stop, clients that are quiet.

Nothing here knows what a probe is. ``ports`` says what such a part is handed (an inbox for facts, a clock), ``worker``
is the thread each of them is, ``quiet`` makes librdkafka bearable to an SRE: it logs through structlog a few lines a
minute instead of twenty a second, and backs off instead of burning a core while brokers are frozen (FIELD-NOTES).
"""
