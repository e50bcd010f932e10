"""Groups of applications, and transactions that hang: looked at now and then, in threads of their own.

What is asked is here (``asking``), what it means is in canary.anomalies.groups. A right that is missing is said once,
as what the part cannot do, and what it hides is unknown.
"""
