"""What a runner watches of its cluster besides its probes, as the settings want it."""
