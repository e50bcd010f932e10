"""Receipts for an application's own records: a confluent-kafka Producer that notes what was acknowledged, and where.

    from canary_receipts import Producer

    producer = Producer({"bootstrap.servers": "b1:9092"}, receipts={"directory": "/var/lib/orders/receipts"})

Everything else stays as it is. What is written, and what it promises, is on the page docs/receipts.md.
"""

from canary_receipts.options import Options as Options
from canary_receipts.producer import Producer as Producer
