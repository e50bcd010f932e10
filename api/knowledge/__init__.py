"""What the store holds of a cluster, put together: its runners' views, its last reconciliation, what it survived."""
