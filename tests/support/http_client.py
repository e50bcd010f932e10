"""The client for what is asked again and again: to make one reads all certificates that this machine trusts."""

from __future__ import annotations

from typing import Final

import httpx

PATIENCE_S: Final = 60.0
"""How long an answer may take on a machine that is busy; no part of what is tested."""
HTTP: Final = httpx.Client(timeout=PATIENCE_S, limits=httpx.Limits(max_keepalive_connections=0))
"""It keeps no connection: servers are killed and started again."""
