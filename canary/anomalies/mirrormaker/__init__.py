"""Topics that MirrorMaker 2 (or the like) copies to another cluster: what is not there, what is there again.

MirrorMaker 2 keeps partition and order, writes at least once, and gives each record another offset. So a probe of the
source is looked for by its identity: of each partition the probes that wait for their copy are known as runs, and a
copy of a later one shows that MirrorMaker 2 went past those before it.

``facts`` is what a round of reading tells; ``runs`` holds probes that wait; ``offsets`` pairs source and target offsets
and judges translated ones; ``partition`` and ``mirror`` judge. No clock, no client: canary.watching.mirrormaker reads.
"""
