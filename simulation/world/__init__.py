"""A canary with all that it stands in (``World``), the plan of a life, and who writes down what happens.

``truth`` keeps what became of each probe and each promise, ``chronicle`` the rest: copies, decisions, quiet times.
"""
