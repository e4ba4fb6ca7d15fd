"""The way of a commit: config, git, select, chunk, embed, publish."""
