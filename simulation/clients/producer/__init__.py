"""A producer: what the application holds, what it does, its requests, its id and its transactions."""
