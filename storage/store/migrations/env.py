"""Run migrations on the connection and in the transaction of storage.store.migrating."""

from alembic import context

from storage.store.models import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA, render_as_batch=True)
context.run_migrations()
