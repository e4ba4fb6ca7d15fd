"""The lock files fit pyproject.toml and each other, and say nothing about the machine that wrote them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).parents[2]
LOCKS = {"requirements.lock": [], "requirements-dev.lock": ["dev"], "requirements-all.lock": ["dev", "transformers"]}
HINT = "run scripts/lock (or scripts/lock --keep)"


def read_pins(file: str) -> list[Requirement]:
    text = (PROJECT / file).read_text()
    return [Requirement(match) for match in re.findall(r"^([a-z][^\\\n]*?) *\\?$", text, re.MULTILINE)]


def declared(extras: list[str]) -> list[Requirement]:
    pyproject = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    texts = [*pyproject["build-system"]["requires"], *pyproject["project"]["dependencies"]]
    for extra in extras:
        texts += pyproject["project"]["optional-dependencies"][extra]
    return [Requirement(text) for text in texts]


@pytest.mark.parametrize("file", LOCKS)
def test_every_declared_dependency_is_pinned_within_its_range(file: str) -> None:
    pins = read_pins(file)
    for requirement in declared(LOCKS[file]):
        versions = [pin.specifier for pin in pins if canonicalize_name(pin.name) == canonicalize_name(requirement.name)]
        assert versions, f"{file} has no {requirement.name}: {HINT}"
        for exact in versions:
            (pin,) = exact
            assert pin.operator == "=="
            assert pin.version in requirement.specifier, f"{file} has {requirement.name}{pin}: {HINT}"


@pytest.mark.parametrize("file", LOCKS)
def test_lock_is_hashed_and_names_no_host_or_path(file: str) -> None:
    for block in re.split(r"\n(?=[a-z#])", (PROJECT / file).read_text().strip()):
        if block.startswith("#"):
            continue
        assert re.fullmatch(r"[^/@]+ \\(\n    --hash=sha256:[0-9a-f]{64}( \\)?)+", block), block[:80]


def test_each_lock_holds_all_of_the_one_before() -> None:
    runtime, dev, everything = ({str(pin) for pin in read_pins(file)} for file in LOCKS)
    assert runtime < dev < everything


def test_torch_is_pinned_apart() -> None:
    """Its builds differ by machine, so no lock file can hold a hash that all accept."""
    (torch,) = read_pins("requirements-torch.txt")
    assert torch.name == "torch"
    names = {pin.name for pin in read_pins("requirements-all.lock")}
    assert not [name for name in names if re.match("torch$|triton|nvidia-|cuda-", name)]
