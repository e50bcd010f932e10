"""Consumer groups of applications, judged by what they commit: pure, of what canary.watching.groups is told.

* ``ends``: when a log's end passed an offset, so that a lag has an age though no record is read;
* ``sample``: what one round of questions was told;
* ``place``: one partition of one group: how far it is, and what is wrong with it;
* ``rounds``: round after round of all groups, to violations and to what is shown;
* ``stable``: partitions whose last stable offset stands still, for hanging transactions.

Nothing here is a fact: the commits of other people's groups are not made durable, and a start knows none of before.
"""
