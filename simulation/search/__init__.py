"""Lives from many seeds, the shortest life that goes wrong, and whether the search finds defects that it should find.

``python -m simulation`` searches; ``python -m simulation.search.taken_out`` takes mends out of a copy of the tree, one
at a time, and searches there.
"""
