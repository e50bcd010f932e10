"""The definitions broken on purpose, one comparison or exclusion at a time: each time a test must fail.

``make mutations``, or ``python -m tests.mutations [text ...]`` for those whose file or words contain one of the texts.
``table_offline`` and ``table_online`` say what is broken; ``running`` does it, in a copy of the tree.
"""
