"""Tables for the night's reconciliation, and what it has to say of them, by an oracle in plain Python."""
