"""Print the git blob ids of training files that also stand in repositories on which retrieval is judged.

    python scripts/check_training_text.py REPOSITORY...

Looks at every blob that a repository holds, of all its history. Exit code 1 if a file is not yet in
model_excluded_files.txt. Files of fewer than 200 bytes (empty modules, stubs) are passed over.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from model_corpus import CorpusError, fetch, read_manifest, run, source_files, stored_id
from platformdirs import user_cache_path

MIN_BYTES = 200


def main() -> int:
    """Run the command line; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", nargs="+", type=Path)
    parser.add_argument("--cache", type=Path, default=user_cache_path("gitstrata") / "model-corpus")
    given = parser.parse_args()
    try:
        packages, excluded = read_manifest(Path(__file__).with_name("model_manifest.toml"))
        fetch(packages, given.cache)
        judged = set().union(*map(_blobs, given.repositories))
        new = 0
        for package in packages:
            for name, text in source_files(given.cache / package.file, excluded):
                if (blob := stored_id(text)) in judged:
                    new += 1
                    print(f"{blob}  # {package.name}: {name}")
    except (CorpusError, OSError) as error:
        print(f"check_training_text: {error}", file=sys.stderr)
        return 1
    print(f"{len(judged)} blobs judged, {new} training files among them", file=sys.stderr)
    return 1 if new else 0


def _blobs(repository: Path) -> set[str]:
    listed = "--batch-check=%(objectname) %(objecttype) %(objectsize)"
    lines = run(["git", "-C", str(repository), "cat-file", "--batch-all-objects", "--unordered", listed]).splitlines()
    rows = (line.split() for line in lines)
    return {oid for oid, kind, size in rows if kind == "blob" and int(size) >= MIN_BYTES}


if __name__ == "__main__":
    sys.exit(main())
