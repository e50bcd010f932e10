"""What a workload sends, and how, as its settings say: ``records`` are the bytes, ``pipeline`` the properties."""
