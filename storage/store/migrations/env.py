"""Run migrations on the connection that storage.store.migrating hands over, in its transaction."""

from __future__ import annotations

from alembic import context

from storage.store.models import Base

context.configure(
    connection=context.config.attributes["connection"], target_metadata=Base.metadata, render_as_batch=True
)
context.run_migrations()
