"""The outbox of notifications: what each receiver is to be told of incidents, until it has been told."""
