"""One class for each family of tables; each public method runs one transaction and raises StoreError."""
