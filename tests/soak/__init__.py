"""An hour of the canary on real brokers that fail, and a hundred times kill -9: nothing false, nothing forgotten."""
