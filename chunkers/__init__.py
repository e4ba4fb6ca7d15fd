"""Text in, chunks out. Knows nothing of git, Postgres or CocoIndex."""
