"""The hands of the canary: producers, readers, and the one re-read routine. They do and tell; they never judge.

Every part is a thread (canary.client.worker) with a client instance of its own, so that one does not slow the other. It
is handed plain values (librdkafka properties, names, numbers) and an Inbox, and puts facts into it. What must be true
of the order of facts is kept here: ``Sent`` is in the inbox before produce() is called, ``Positioned`` before the first
``Polled`` that follows from it, ``RereadEnded`` after the last.

A mode of writing is one file (``idempotent``; others beside it). ``tail`` reads on at the end, ``reread`` reads a range
once more, ``topic`` makes the probe topic when the cluster says that there is none.
"""
