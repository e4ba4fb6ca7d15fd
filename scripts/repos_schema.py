"""Write repos.d/schema.json, which editors use for completion, from the model of a repository file.

python scripts/repos_schema.py
"""

from pathlib import Path

from flows.config.model import json_schema

if __name__ == "__main__":
    Path(__file__).parent.parent.joinpath("repos.d", "schema.json").write_text(json_schema(), encoding="utf-8")
