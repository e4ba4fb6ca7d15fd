"""What a path alone tells: keys, lock files, source maps, bundles, generated and vendored code. Tables, not branches.

Patterns are gitignore's and compared in lower case: one that ends in ``/`` is for folders, the others are for names.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Literal

import pathspec

# pathspec takes other regular expressions where re2 is installed, which stop at paths that are not UTF-8.
BACKEND: Literal["simple"] = "simple"


class SkipReason(StrEnum):
    """Why a file is listed but not indexed. The order is that in which reasons are looked for."""

    SUBMODULE = "submodule"
    SYMLINK = "symlink"
    SECRET = "secret"
    LFS = "lfs_pointer"
    LOCK_FILE = "lock_file"
    SOURCE_MAP = "source_map"
    VENDORED = "vendored"
    GENERATED = "generated"
    MINIFIED = "minified"
    LANGUAGE = "language"
    TOO_LARGE = "too_large"
    BINARY = "binary"
    DATA = "data"
    FAILED = "failed"


MEANINGS = {
    SkipReason.SUBMODULE: "another repository, shown by its own name only",
    SkipReason.SYMLINK: "a link; what it points to is indexed where it stands",
    SkipReason.SECRET: "a key or a store of credentials",
    SkipReason.LFS: "a pointer to a file that Git LFS keeps elsewhere",
    SkipReason.LOCK_FILE: "versions that a package manager wrote down",
    SkipReason.SOURCE_MAP: "a source map",
    SkipReason.VENDORED: "a copy of other people's code",
    SkipReason.GENERATED: "written by a program",
    SkipReason.MINIFIED: "lines too long to be written by hand",
    SkipReason.LANGUAGE: "not in one of the languages that the repository's configuration names",
    SkipReason.TOO_LARGE: "larger than max_file_size",
    SkipReason.BINARY: "no text",
    SkipReason.DATA: "a dump of data: numbers, or records beyond what anybody reads",
    SkipReason.FAILED: "it could not be read or cut; the next run tries again",
}

NAMES: dict[SkipReason, str] = {
    SkipReason.SECRET: """
        id_rsa id_dsa id_ecdsa id_ecdsa_sk id_ed25519 id_ed25519_sk *.ppk *.kdbx *.kdb *.p12 *.pfx *.jks *.keystore
        *.agilekeychain *.keychain .env *.env .env.* .netrc _netrc .pypirc .pgpass .git-credentials .dockercfg
        .htpasswd .s3cfg .boto .vault_pass .vault-token .my.cnf credentials.json client_secret*.json
        service-account*.json service_account*.json *.tfstate *.tfstate.backup *.ovpn secring.* master.key
    """,
    SkipReason.LOCK_FILE: """
        package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb deno.lock composer.lock
        gemfile.lock gems.locked cargo.lock poetry.lock pipfile.lock uv.lock pdm.lock pixi.lock pylock.toml
        conda-lock.yml go.sum go.work.sum gopkg.lock glide.lock mix.lock rebar.lock pubspec.lock podfile.lock
        cartfile.resolved package.resolved
        flake.lock packages.lock.json project.assets.json paket.lock gradle.lockfile buildscript-gradle.lockfile
        cabal.project.freeze stack.yaml.lock shard.lock nimble.lock renv.lock
        module.bazel.lock .terraform.lock.hcl chart.lock requirements.lock conan.lock vcpkg-lock.json
        dub.selections.json gleam.lock .package-lock.json
    """,
    SkipReason.SOURCE_MAP: "*.js.map *.css.map *.mjs.map *.cjs.map *.jsx.map *.ts.map *.tsx.map *.scss.map *.wasm.map",
    SkipReason.VENDORED: """
        node_modules/ bower_components/ jspm_packages/ third_party/ third-party/ thirdparty/ 3rdparty/ 3rd_party/
        _vendor/ /vendor/ /deps/ godeps/_workspace/ /pods/ ios/pods/ carthage/checkouts/ site-packages/ .yarn/
        assets/vendor/ public/vendor/ static/vendor/ js/vendor/ css/vendor/ javascripts/vendor/ stylesheets/vendor/
        vendor/github.com/ vendor/golang.org/ vendor/google.golang.org/ vendor/gopkg.in/ vendor/k8s.io/ vendor/bundle/
        .pnp.cjs .pnp.loader.mjs gradlew gradlew.bat mvnw mvnw.cmd
    """,
    SkipReason.GENERATED: """
        *_pb2.py *_pb2.pyi *_pb2_grpc.py *_pb2_grpc.pyi *.pb.go *.pb.gw.go *.pb.validate.go *.pb.cc *.pb.h *.pb.swift
        *.pb.dart *.pbenum.dart *.pbjson.dart *.pbgrpc.dart *_pb.js *_pb.d.ts *_pb.ts *_pb.rb *_pb.php *.pb.ex
        *.g.dart *.freezed.dart *.gr.dart *.mocks.dart *.designer.cs *.designer.vb *.g.cs *.g.i.cs
        *.generated.cs *.generated.go *.generated.ts *.generated.tsx *.generated.js *.generated.swift *.generated.java
        *.gen.go *.gen.ts *.gen.tsx *.gen.rs zz_generated.*.go *_generated.go *_generated.rs *_generated.h
        *_generated.ts *_generated.swift bindata.go *.pbxproj *.xcworkspacedata *.snap *.storyboard *.xib
    """,
    SkipReason.MINIFIED: "*.min.js *.min.css *.min.mjs *-min.js *-min.css *.bundle.js *.chunk.js",
}
EXAMPLES = (  # what looks like a store of credentials but is there to be copied
    ".env.example .env.sample .env.template .env.dist .env.defaults .env.tpl example.env sample.env template.env"
)


@dataclass(frozen=True, slots=True, eq=False)
class _Names:
    """The patterns of one reason."""

    exact: frozenset[str]
    suffixes: tuple[str, ...]
    others: re.Pattern[str] | None
    folders: pathspec.GitIgnoreSpec
    folder_patterns: tuple[str, ...]
    globs: tuple[str, ...]

    def match(self, folder: str, name: str) -> str:
        """Return the pattern that a path in lower case fits, "" if none does."""
        if name in self.exact:
            return name
        if name.endswith(self.suffixes) or (self.others is not None and self.others.match(name)):
            return next((glob for glob in self.globs if fnmatch.fnmatchcase(name, glob)), "")
        return _folder(self, folder) if self.folder_patterns and folder else ""


@lru_cache(maxsize=65536)
def _folder(names: _Names, folder: str) -> str:
    found = names.folders.check_file(folder)
    return names.folder_patterns[found.index] if found.include and found.index is not None else ""


def _table(patterns: str) -> _Names:
    words = patterns.split()
    folders = tuple(word for word in words if word.endswith("/"))
    exact = frozenset(word for word in words if not word.endswith("/") and "*" not in word)
    globs = tuple(word for word in words if "*" in word)
    suffixes = tuple(glob[1:] for glob in globs if glob.startswith("*") and "*" not in glob[1:])
    others = [fnmatch.translate(glob) for glob in globs if glob[1:] not in suffixes]
    anywhere = [word if word.startswith("/") else f"**/{word}" for word in folders]
    spec = pathspec.GitIgnoreSpec.from_lines(anywhere, backend=BACKEND)
    return _Names(exact, suffixes, re.compile("|".join(others)) if others else None, spec, folders, globs)


_TABLES = {reason: _table(patterns) for reason, patterns in NAMES.items()}
_EXAMPLES = frozenset(EXAMPLES.split())


def reasons(path: str) -> dict[SkipReason, str]:
    """Return the reasons that a path's names give, each with its pattern, in order."""
    folder, slash, name = path.lower().rpartition("/")
    found = {reason: names.match(folder + slash, name) for reason, names in _TABLES.items()}
    if name in _EXAMPLES:
        found.pop(SkipReason.SECRET)
    return {reason: pattern for reason, pattern in found.items() if pattern}
