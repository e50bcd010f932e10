"""Drills: a cluster is broken on purpose, and the alarm has to ring; SREs trust an alarm that they have heard.

A *drill* is one file: its docstring tells the story and its source, ``DRILL`` is a value (canary.drills.drill) with a
stage (brokers, topics, the canary's settings), steps (faults, waits, writes), what the canary must say, and a control:
the same steps where the settings are safe, at which it must stay silent. The rooms beside this one group the files;
canary.drills.catalogue finds them all. Command line, tests and documents iterate that table.

The brokers are real ones of this machine (canary.lab), thrown away afterwards. What is gone is found by a direct
reading that shares no code with the canary's judgement, and the canary's violations are held against it, record by
record.
"""
