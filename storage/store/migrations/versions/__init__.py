"""The migrations, one file each, never changed once released."""
