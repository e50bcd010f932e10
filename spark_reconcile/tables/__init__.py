"""The tables of CONTRACTS "Probe log and dump": their columns, reading them into NumPy arrays, and writing files."""
