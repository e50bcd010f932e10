"""Commands that run the canary."""
