"""Query, rank, render; the MCP server and the command line."""
