"""What the probe topics really hold, as Parquet: bounds first, then every record within them."""
