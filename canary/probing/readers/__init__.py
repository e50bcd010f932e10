"""Consumers with assigned positions: ``tail`` reads on at the end of a topic, ``reread`` reads a range once more.

Both are made from ``consumer``: the properties that decide what is seen, and how a delivered record becomes a fact.
"""
