"""REST, /metrics and the status page: everything an SRE asks, answered from the store and the probe log alone.

Stateless: nothing here talks to Kafka, so no request waits for a broker, and all replicas answer the same. Calls of the
store go through `api.store_calls`, which limits their time: if the store hangs, the answer is 503 with a problem
document (RFC 9457). A runner stores what it knows as its *view*; `api.knowledge` joins the views of a cluster's
runners, `api.judgement` says in one sentence whether the data is safe.
"""

from api.app import create_app

__all__ = ["create_app"]
