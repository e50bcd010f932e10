"""The PostgreSQL server of drills.

Its data is not below pytest's own temporary directory: started by root it runs as another user, and every other pytest
that begins meanwhile closes that directory to others again.
"""

from canary.drills.rig.postgres import Postgres

__all__ = ["Postgres"]
