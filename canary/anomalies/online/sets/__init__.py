"""Sets and maps of integers whose size grows with holes, never with members."""
