"""The two parameters of every list."""

from typing import Annotated

from fastapi import Query

Cursor = Annotated[str | None, Query(max_length=500, description="next_cursor of the page before.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="At most so many items.")]
