"""The jars of Kafka and of Spark's connector: pinned, downloaded once, cached."""
