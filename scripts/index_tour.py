"""Stub: prints its arguments."""

import sys
from pathlib import Path

print(Path.cwd(), sys.argv[1:])
