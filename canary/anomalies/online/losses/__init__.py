"""From a suspicion to a lost write, in three steps, none of which is a timer (decisions 5 to 8).

1. A consumer's position passes a promised offset without delivering the probe. (Or another acknowledgement claims the
   offset, or the listed end of the log is at or below it.)
2. A fresh client reads the place again and does not find the probe either, or the log ended below it twice in a row.
3. Two later samples give the same topic id, and a start of the log that is not above the place.

Example: offsets 17 and 18 are acknowledged; the consumer is given 16, then 19. A re-read of [17, 19) delivers 18 only:
18 is a poll-skip, and after two samples 17 is a lost-write. Had the log's start moved to 20 meanwhile, the re-read
would prove nothing about 17, and retention would judge it.

Not seen: a record that vanishes after its last re-read and before the nightly reconciliation, which reads everything.
"""
