"""What a runner publishes of what it watches besides its probes."""
