"""A client of a test that was never told which cluster it is in."""

from confluent_kafka import KafkaError, KafkaException


class Unmet:
    """What fake clients have in common."""

    def cluster_id(self, _timeout: float) -> str:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
