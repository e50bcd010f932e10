"""Where alerts fire: panels change their colour, and draw a line, at the same values."""

from typing import Final

SILENT_S: Final = 45
"""No runner of a cluster has judged anything for so long."""
DELAYED_S: Final = 15
"""What the store knows is so old."""
PENDING_ROWS: Final = 10_000
"""So many facts wait to become durable."""
UNSEEN_S: Final = 60
"""An acknowledged probe has waited for its reader for so long."""
UNWRITABLE_S: Final = 60
"""A partition, or a broker, has acknowledged nothing for so long."""
SCRUBBED_S: Final = 604_800
"""A round of the scrubber takes so long."""
NIGHT_S: Final = 7_200
"""A reconciliation that begins on time ends within this, even if only its third attempt succeeds."""
PROVEN_S: Final = 8 * 86_400
"""No drill has proven the alarm for so long."""
EXPIRES_S: Final = 1_209_600
"""A certificate is still valid for so long."""
FAST: Final = 14.4
SLOW: Final = 6
STEADY: Final = 1
"""Burn rates of an error budget: within 1 h, 6 h, 3 d they use up 2 %, 5 %, 10 % of what 30 days allow."""
COVERED: Final = 0.5
"""An average over a window is one of that window if there were events, or samples, in this share of it."""
