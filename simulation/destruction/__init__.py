"""Lives of one partition in which data is destroyed, with the truth about it, for the tracker alone.

There is no cluster and no client: facts are made up, in an order that no real cluster would show for years.
Begin with ``lives``.
"""
