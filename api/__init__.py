"""REST, /metrics and the status page: everything an SRE asks, answered from the store and the probe log alone.

Stateless: nothing here talks to Kafka, so no request ever waits for a broker, and any number of replicas say the same.
Whatever asks the store goes through `api.calls`, which bounds it in time: a store that hangs costs an answer of 503
with a problem document (RFC 9457), never a hanging request. What a runner knows arrives as its *view* (`api.views`);
runners of one cluster are put together there. `api.judgement` says in one sentence whether the data is safe.
"""

from api.app import create_app

__all__ = ["create_app"]
