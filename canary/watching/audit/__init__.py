"""The audit: what is unsafe about a cluster and its topics as they are set."""
