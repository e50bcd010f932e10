"""The definitions broken on purpose, one comparison or exclusion at a time: each time a test must fail.

``make mutations``, or ``python -m tests.mutations [text ...]`` for those whose file or words contain one of the texts.
The tables say what is broken and which tests must notice; ``running`` does it, in a copy of the tree.

An entry names the scope in which its code stands, the code, and what is put there (``simulation.search.edits``). Only
the syntax counts, so neither a comment nor a docstring nor the formatter touches an entry.

``--matrix FILE`` writes all that fails for each mutation, and what each test costs. ``--spare FILE`` prints which tests
such a matrix shows to be spare: they kill no mutation that others do not kill. Whether one of them keeps a promise of
its own, the table cannot say.
"""
