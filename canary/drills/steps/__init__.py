"""Steps of drills, as values."""
