"""/metrics: the catalogue of canary.metrics, rendered from what the store holds."""
