"""The processes that commands start: ``canary up``, ``run``, ``serve``, ``smoke``."""
