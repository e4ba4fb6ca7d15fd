"""The training text of the shipped model: fetches a pinned manifest of packages and reads their source files.

Source archives are downloaded, checked by hash and read as archives: nothing of them is installed or run. Everything is
sorted, so that the same manifest always gives the same text.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from chunkers import languages

REGISTRIES = ("debian", "npm", "pypi")
LICENCES = ("MIT", "BSD", "Apache-2.0", "ISC", "PSF")
OTHER_FOLDERS = frozenset(
    {"_vendor", "_vendored", "deps", "extern", "externals", "node_modules", "third_party", "third-party", "thirdparty"}
    | {"vendor", "vendored"}  # copies of other projects
    | {"build", "cjs", "dist", "esm", "min", "umd"}  # what a build made of the sources
    | {"Renderer", "locale", "locales"}
)
EXCLUDED_FILES = "model_excluded_files.txt"  # beside the manifest
MAX_PACKAGE_CHARS = 2_500_000
MAX_FILE_BYTES = 300_000
MAX_MEAN_LINE = 200
"""Longer lines on average are minified or generated text."""
_BATCH = 40  # packages an npm process fetches


class CorpusError(Exception):
    """The corpus cannot be fetched or is not what the manifest says."""


@dataclass(frozen=True, slots=True)
class Package:
    """One released file of the manifest; ``path`` is its place on a Debian mirror."""

    registry: str
    name: str
    version: str
    licence: str
    file: str
    sha256: str
    path: str = ""


def read_manifest(path: Path) -> tuple[list[Package], frozenset[str]]:
    """Return the packages by registry and name, and the git blob ids that must not be read.

    Raises CorpusError on anything not allowed in it.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        packages = [Package(**row) for row in table["package"]]
        excluded = set(table["excluded"])
        files = frozenset(path.with_name(EXCLUDED_FILES).read_text(encoding="ascii").split())
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise CorpusError(f"cannot read the manifest {path}: {error}") from error
    for package in packages:
        if package.registry not in REGISTRIES:
            expected = ", ".join(REGISTRIES)
            raise CorpusError(f"{package.name}: unknown registry {package.registry!r}, expected one of {expected}")
        if not package.licence.startswith(LICENCES):
            raise CorpusError(f"{package.name}: licence {package.licence!r} is not one of {', '.join(LICENCES)}")
        if package.name.lower() in excluded:
            raise CorpusError(f"{package.name} belongs to an evaluation set: remove it from the manifest")
    return sorted(packages, key=lambda package: (package.registry, package.name.lower())), files


def fetch(packages: list[Package], cache: Path) -> None:
    """Download what the cache lacks and check every hash. Raises CorpusError."""
    cache.mkdir(parents=True, exist_ok=True)
    missing = [package for package in packages if not (cache / package.file).exists()]
    _fetch_pypi([package for package in missing if package.registry == "pypi"], cache)
    _fetch_npm([f"{package.name}@{package.version}" for package in missing if package.registry == "npm"], cache)
    _fetch_debian([package for package in missing if package.registry == "debian"], cache)
    for package in packages:
        _check(package, cache / package.file)


def _fetch_pypi(packages: list[Package], cache: Path) -> None:
    if not packages:
        return
    import pypi_simple

    with pypi_simple.PyPISimple(os.environ.get("PIP_INDEX_URL", pypi_simple.PYPI_SIMPLE_ENDPOINT)) as index:
        for package in packages:
            try:
                files = index.get_project_page(package.name).packages
                wanted = next((file for file in files if file.filename == package.file), None)
                if wanted is None:
                    raise CorpusError(f"{package.name} {package.version}: the index has no file {package.file}")
                index.download_package(wanted, cache / package.file)
            except (pypi_simple.NoSuchProjectError, pypi_simple.DigestMismatchError, OSError) as error:
                raise CorpusError(f"{package.name} {package.version}: {error}") from error


def _fetch_npm(names: list[str], cache: Path) -> None:
    for first in range(0, len(names), _BATCH):
        run(["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", str(cache), *names[first:][:_BATCH]])


def _fetch_debian(packages: list[Package], cache: Path) -> None:
    """Fetch source archives from GITSTRATA_DEBIAN_MIRROR, else from the mirror that apt uses."""
    if not packages:
        return
    import httpx2

    mirror = os.environ.get("GITSTRATA_DEBIAN_MIRROR") or _apt_mirror()
    with httpx2.Client(follow_redirects=True, timeout=120) as client:
        for package in packages:
            try:
                answer = client.get(f"{mirror.rstrip('/')}/{package.path}").raise_for_status()
            except httpx2.HTTPError as error:
                raise CorpusError(f"{package.name} {package.version}: {error}; see --without debian") from error
            (cache / package.file).write_bytes(answer.content)


def _apt_mirror() -> str:
    sites = run(["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages", "Origin: Debian"]).split()
    if not sites:
        raise CorpusError("apt names no Debian mirror: set GITSTRATA_DEBIAN_MIRROR, or use --without debian")
    return sites[0]


def run(command: list[str]) -> str:
    """Run a program and return what it printed. Raises CorpusError."""
    if shutil.which(command[0]) is None:
        raise CorpusError(f"{command[0]} is not installed")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise CorpusError(f"{command[0]} failed: {reason}")
    return done.stdout


def _check(package: Package, path: Path) -> None:
    if not path.exists():
        raise CorpusError(f"{package.name} {package.version}: the registry gave no file named {package.file}")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != package.sha256:
        raise CorpusError(f"{path}: sha256 is {found}, expected {package.sha256}; delete the file to fetch it again")


def source_files(archive: Path, excluded: frozenset[str] = frozenset()) -> Iterator[tuple[str, str]]:
    """Yield path and text of the distinct source files of a package, up to MAX_PACKAGE_CHARS of text.

    The order mixes the package's folders. Files whose git blob id is in ``excluded`` are left out.
    """
    read = _zip_files if archive.suffix in (".whl", ".zip") else _tar_files
    files = {_inside(name): data for name, data in read(archive) if _is_wanted(_inside(name))}
    seen: set[str] = set()
    left = MAX_PACKAGE_CHARS
    for name in sorted(files, key=lambda name: hashlib.sha256(name.encode()).digest()):
        digest = blob_id(files[name])
        text = files[name].decode("utf-8", "replace")
        if digest in seen or digest in excluded or len(text) > MAX_MEAN_LINE * (text.count("\n") + 1):
            continue
        seen.add(digest)
        left -= len(text)
        if left < 0:
            return
        yield name, text


def blob_id(data: bytes) -> str:
    """Return git's id of a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def stored_id(text: str) -> str:
    """Return git's id of a decoded file; a file that is not UTF-8 gets another one."""
    return blob_id(text.encode(errors="replace"))


def _inside(name: str) -> str:
    """Return a path without the folder that holds the whole archive."""
    return name.partition("/")[2] or name


def _is_wanted(name: str) -> bool:
    language = languages.detect(name)
    return (
        (language.grammar is not None or language.category == "docs")
        and not OTHER_FOLDERS.intersection(name.split("/"))
        and ".min." not in name
        and not name.endswith(".d.ts")
    )


def _zip_files(archive: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(archive) as wheel:
        for member in wheel.infolist():
            if not member.is_dir() and member.file_size <= MAX_FILE_BYTES:
                yield member.filename, wheel.read(member)


def _tar_files(archive: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile() and member.size <= MAX_FILE_BYTES and (stream := tar.extractfile(member)):
                yield member.name, stream.read()
