"""What can go wrong, each anomaly defined once, and the engines that decide it.

* ``catalogue``: the model (what a log looks like), and one entry for each anomaly;
* ``policy``: severity by mode, what counts as a loss, derived from the entries;
* ``violation``: a broken promise with its evidence, what engines report;
* ``offline``: the checker of recorded histories (`canary check`);
* ``online``: the tracker, which folds facts while the canary runs.

The nightly reconciliation (spark_reconcile) is a third engine. The three are written apart on purpose, because they
check one another: the same small histories are given to all of them, and kinds, places and counts are compared.

Pure: no I/O, no clock, no thread.
"""
