"""What can go wrong in a life: a module for each part that is harmed, and ``catalogue`` with all of them.

A harm is a function that begins it and returns what ends it.
"""
