"""Who is told of incidents by the canary itself, besides the alerts of Prometheus."""
