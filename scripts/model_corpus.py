"""The training text of the shipped model: fetches a pinned manifest of packages and reads their source files.

Packages are downloaded as wheels or npm archives, checked by hash and read as archives: nothing of them is installed or
run. Everything is sorted, so that the same manifest always gives the same text.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

LICENCES = ("MIT", "BSD", "Apache-2.0", "ISC", "PSF")
SUFFIXES = frozenset(
    {".c", ".cc", ".cpp", ".cs", ".css", ".frag", ".glsl", ".go", ".h", ".hpp", ".java", ".js", ".jsx", ".kt", ".m"}
    | {".md", ".mjs", ".mm", ".php", ".proto", ".py", ".pyi", ".pyx", ".rb", ".rs", ".rst", ".scala", ".scss", ".sh"}
    | {".sql", ".swift", ".toml", ".ts", ".tsx", ".vert", ".vue"}
)
COPIED_FOLDERS = frozenset(
    {"_vendor", "_vendored", "extern", "externals", "node_modules", "third_party", "third-party", "thirdparty"}
    | {"vendor", "vendored"}
)
_PURE_WHEELS = (
    *("--no-deps", "--only-binary=:all:", "--platform", "any"),
    *("--python-version", "3.11", "--implementation", "py", "--abi", "none"),
)
MAX_PACKAGE_CHARS = 6_000_000
MAX_FILE_BYTES = 400_000
MAX_MEAN_LINE = 200
"""Longer lines on average are minified or generated text."""


class CorpusError(Exception):
    """The corpus cannot be fetched or is not what the manifest says."""


@dataclass(frozen=True, slots=True)
class Package:
    """One released file of the manifest."""

    registry: str
    name: str
    version: str
    licence: str
    file: str
    sha256: str


def read_manifest(path: Path) -> list[Package]:
    """Read the manifest, sorted by registry and name. Raises CorpusError on anything not allowed in it."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        packages = [Package(**row) for row in table["package"]]
        excluded = set(table["excluded"])
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise CorpusError(f"cannot read the manifest {path}: {error}") from error
    for package in packages:
        if package.registry not in ("pypi", "npm"):
            raise CorpusError(f"{package.name}: unknown registry {package.registry!r}, expected pypi or npm")
        if not package.licence.startswith(LICENCES):
            raise CorpusError(f"{package.name}: licence {package.licence!r} is not one of {', '.join(LICENCES)}")
        if package.name.lower() in excluded:
            raise CorpusError(f"{package.name} belongs to an evaluation set: remove it from the manifest")
    return sorted(packages, key=lambda package: (package.registry, package.name.lower()))


def fetch(packages: list[Package], cache: Path) -> None:
    """Download what the cache lacks and check every hash. Raises CorpusError."""
    cache.mkdir(parents=True, exist_ok=True)
    missing = [package for package in packages if not (cache / package.file).exists()]
    wheels = [f"{package.name}=={package.version}" for package in missing if package.registry == "pypi"]
    archives = [f"{package.name}@{package.version}" for package in missing if package.registry == "npm"]
    if wheels:
        _run([sys.executable, "-m", "pip", "download", "--quiet", *_PURE_WHEELS, "--dest", str(cache), *wheels])
    if archives:
        _run(["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", str(cache), *archives])
    for package in packages:
        _check(package, cache / package.file)


def _run(command: list[str]) -> None:
    if shutil.which(command[0]) is None:
        raise CorpusError(f"{command[0]} is not installed")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise CorpusError(f"{command[0]} failed: {reason}")


def _check(package: Package, path: Path) -> None:
    if not path.exists():
        raise CorpusError(f"{package.name} {package.version}: the registry gave no file named {package.file}")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != package.sha256:
        raise CorpusError(f"{path}: sha256 is {found}, expected {package.sha256}; delete the file to fetch it again")


def source_texts(archive: Path) -> Iterator[str]:
    """Yield the distinct source files of a package, in an order that mixes its folders, up to MAX_PACKAGE_CHARS."""
    read = _wheel_files if archive.suffix == ".whl" else _tar_files
    names = {name: data for name, data in read(archive) if _is_wanted(name)}
    seen: set[bytes] = set()
    left = MAX_PACKAGE_CHARS
    for name in sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest()):
        digest = hashlib.sha256(names[name]).digest()
        text = names[name].decode("utf-8", "replace")
        if digest in seen or len(text) > MAX_MEAN_LINE * (text.count("\n") + 1):
            continue
        seen.add(digest)
        left -= len(text)
        if left < 0:
            return
        yield text


def _is_wanted(name: str) -> bool:
    path = PurePosixPath(name)
    return (
        path.suffix in SUFFIXES
        and not COPIED_FOLDERS.intersection(path.parts)
        and not name.endswith((".min.js", ".min.css"))
        and ".dist-info" not in name
    )


def _wheel_files(archive: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(archive) as wheel:
        for member in wheel.infolist():
            if not member.is_dir() and member.file_size <= MAX_FILE_BYTES:
                yield member.filename, wheel.read(member)


def _tar_files(archive: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as tar:
        for member in tar:
            if member.isfile() and member.size <= MAX_FILE_BYTES and (stream := tar.extractfile(member)):
                yield member.name, stream.read()
