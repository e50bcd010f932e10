"""What a simulated process runs on: virtual time and its tasks, threads and locks, a disk, and the store's database."""
