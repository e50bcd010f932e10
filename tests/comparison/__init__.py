"""The canary beside kminion and strimzi-canary, on the same brokers, with faults whose truth is known."""
