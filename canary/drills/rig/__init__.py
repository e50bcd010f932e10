"""What a drill runs on: brokers, a canary, a direct client, and the verdict."""
