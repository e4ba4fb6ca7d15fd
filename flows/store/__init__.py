"""Postgres: the embedded server, connections, the schema and all SQL."""
