"""Who a probe is and how it is written: standard library and NumPy only."""

from canary.probe.identity import Identity

__all__ = ["Identity"]
