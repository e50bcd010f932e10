"""One cluster at work: its workloads, readers, watcher, audit and scrubber."""
