"""What the canary said, held against what happened. ``judgement`` asks all the others.

* ``losses``: missed, false, late, said twice
* ``justified``: every other kind of violation, with ``records`` and ``findings``
* ``agreement``: the checker and the night, with ``exported`` and ``shipped``
* ``costs`` and ``watch`` (the status page)
"""
