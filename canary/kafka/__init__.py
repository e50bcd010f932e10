"""How the canary talks to a Kafka cluster: clients, their errors, re-reads."""
