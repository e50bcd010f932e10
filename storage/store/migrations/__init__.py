"""Alembic's environment and the migrations, packaged so that they are wherever the program is."""
