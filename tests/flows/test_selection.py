"""What is indexed and what is only named, and why: names, contents, attributes of the commit, ignore files."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from flows import git, policy, select
from flows.decode import decode
from flows.policy import Policy, parse
from flows.select import Denied, Keep, Rules, Skip, SkipReason
from tests.conftest import Indexer
from tests.flows.test_sync import paths
from tests.published import published
from tests.repos import Repo
from tests.repos import git as run_git

# Path, and the reason that its names give: None = it is looked into.
NAMES: list[tuple[str, str | None]] = [
    ("src/app.py", None),
    ("api/service_pb2.py", "generated"),
    ("api/service_pb2_grpc.py", "generated"),
    ("api/service.pb.go", "generated"),
    ("lib/model.g.dart", "generated"),
    ("Forms/Main.Designer.cs", "generated"),  # whatever the case
    ("pkg/zz_generated.deepcopy.go", "generated"),
    ("src/designer.cs", None),
    ("src/generated.py", None),  # a word in a name is not enough
    ("node_modules/left-pad/index.js", "vendored"),
    ("web/node_modules/left-pad/index.js", "vendored"),
    ("vendor/lib/a.go", "vendored"),  # at the root
    ("src/vendor/vendor.service.ts", None),  # elsewhere it may be the business with vendors
    ("cmd/vendor/github.com/x/y.go", "vendored"),  # unless what it holds says what it is
    ("public/vendor/jquery.js", "vendored"),
    ("third_party/zlib/z.c", "vendored"),
    ("deps/lua/lua.c", "vendored"),
    ("app/deps/session.py", None),
    ("vendor.py", None),
    ("Cargo.lock", "lock_file"),
    ("web/package-lock.json", "lock_file"),
    ("vendor/x/go.sum", "lock_file"),  # the more telling reason first
    ("lock.py", None),
    ("dist/app.js.map", "source_map"),
    ("maps/world.map", None),
    ("dist/app.min.js", "minified"),
    ("admin.js", None),
    (".env", "secret"),
    ("deploy/prod.env", "secret"),
    (".env.local", "secret"),
    (".env.example", None),
    ("deploy/id_rsa", "secret"),
    ("deploy/id_rsa.pub", None),
    ("certs/server.p12", "secret"),
    ("certs/server.pem", None),  # a certificate or a key: its content tells
    ("gcp/service-account-prod.json", "secret"),
    ("vendor/id_rsa", "secret"),
    ("environment.py", None),
]


def judge(path: str, rules: Rules | None = None, told: Policy | None = None) -> Keep | Skip | Denied:
    entry = git.Entry(b"", "100644", "0" * 40, path.encode())
    return select.by_path(entry, rules or Rules(), told or Policy())


def reason(verdict: Keep | Skip | Denied | None) -> str | None:
    assert isinstance(verdict, Keep | Skip)
    return str(verdict.reason) if isinstance(verdict, Skip) else None


@pytest.mark.parametrize(("path", "expected"), NAMES)
def test_names(path: str, expected: str | None) -> None:
    verdict = judge(path)
    assert reason(verdict) == expected
    assert not isinstance(verdict, Skip) or verdict.rule.startswith("built-in name: ")


def test_generated_and_vendored_code_is_let_in_by_configuration_but_nothing_else_is() -> None:
    let_in = Rules(include_generated=True, include_vendored=True)
    for path, expected in NAMES:
        assert reason(judge(path, let_in)) == (None if expected in ("generated", "vendored") else expected), path


def test_only_the_languages_that_are_asked_for() -> None:
    rules = Rules(languages=("python",))
    assert reason(judge("a.py", rules)) is None and reason(judge("a.go", rules)) == "language"
    script, prose = (decode(raw)[1] for raw in (b"#!/usr/bin/env python3\nx = 1\n", b"to do\n"))
    run = judge("run", rules)
    assert isinstance(run, Keep)  # a name without a language is looked into
    assert select.by_facts(run, 10, script, rules) == Keep("python")
    assert reason(select.by_facts(run, 10, prose, rules)) == "language"


# Path, content, attributes, language: what goes before what.
LANGUAGES = [
    ("run", "#!/bin/sh\n# vim: ft=perl\n", "", "shell"),  # shebang, modeline
    ("run", "x\n# vim: ft=perl\n", "", "perl"),
    ("a.py", "#!/bin/sh\n# vim: ft=perl\n", "", "python"),  # name, both
    ("a.py", "x\n", "*.py linguist-language=Ruby", "ruby"),  # attribute, name
    ("a.inc", "#!/bin/sh\n", "*.inc linguist-language=PHP", "php"),
    ("a.h", "x\n", "*.h linguist-language=C++", "cpp"),
    ("a.py", "x\n", "*.py linguist-language=Nonsense", "python"),  # a word that nobody knows says nothing
    ("a.py", "x\n", "*.py -linguist-language", "python"),
    ("NOTES", "to do\n", "", "text"),
]


@pytest.mark.parametrize(("path", "content", "attributes", "language"), LANGUAGES)
def test_what_tells_the_language(path: str, content: str, attributes: str, language: str) -> None:
    keep = judge(path, None, parse({b".gitattributes": attributes.encode()}))
    assert isinstance(keep, Keep)
    decided = select.by_facts(keep, 10, decode(content.encode())[1], Rules())
    assert isinstance(decided, Keep) and decided.language == language


@pytest.mark.parametrize(
    ("attributes", "category"),
    [
        ("", ""),
        ("guide/** linguist-documentation", "docs"),
        ("guide/** linguist-documentation=false", "code"),
        ("guide/** -linguist-documentation", "code"),
        ("guide/** linguist-documentation\n*.py !linguist-documentation", ""),
        ("other/** linguist-documentation", ""),
    ],
)
def test_what_is_documentation_by_the_repositorys_own_word(attributes: str, category: str) -> None:
    assert judge("guide/a.py", None, parse({b".gitattributes": attributes.encode()})) == Keep("python", False, category)


def test_the_word_is_stored_and_a_change_of_it_moves_nothing_else(index: Indexer, repo: Repo) -> None:
    repo.commit(guide__a_py="def a():\n    pass\n", b_py="def b():\n    pass\n")
    index(repo)
    repo.write(".gitattributes", "guide/** linguist-documentation\n")
    repo.commit()
    report = index(repo)
    assert (report.files.new, report.files.removed, report.vectors.computed) == (1, 0, 1)  # .gitattributes itself
    with index.database.connect() as connection:
        found = dict(connection.execute("select path, category from file order by 1").fetchall())
    assert found == {".gitattributes": "", "guide/a.py": "docs", "b.py": ""}


KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEogIBAAKCAQEAqbKP9hmkPn0GnLjDep\n-----END RSA PRIVATE KEY-----\n"
# Path, content, reason.
CONTENTS: list[tuple[str, str, str | None]] = [
    ("a.py", "", None),  # empty files are kept
    ("a.py", "\n \n", None),
    ("a.go", "// Code generated by protoc-gen-go. DO NOT EDIT.\npackage a\n", "generated"),
    ("a.go", "// Copyright\n//\n// Licensed\n\n// Code generated by x. DO NOT EDIT.\n\npackage a\n", "generated"),
    ("a.js", "/**\n * @generated SignedSource<<x>>\n */\nvar a\n", "generated"),
    ("a.cs", "//------\n// <auto-generated>\n//   by a tool\n// </auto-generated>\nclass A {}\n", "generated"),
    ("a.txt", "# This file is autogenerated by pip-compile\nflask==1\n", "generated"),
    ("a.h", "/* Automatically generated by gen.py, do not edit. */\nint a;\n", "generated"),
    ("configure", "#!/bin/sh\n# Guess values.\n# Generated by GNU Autoconf 2.71.\n", "generated"),
    ("a.py", '"""Do not edit: generated from a.yaml."""\n', "generated"),
    ("0001.py", "# Generated by Django 3.2 on 2021-01-01\nimport x\n", None),  # people edit these
    ("gen.py", 'import os\nHEAD = """\n# Code generated by gen.py. DO NOT EDIT.\n"""\n', None),  # a generator
    ("gen.py", '#!/usr/bin/env python\nprint("@generated")\n', None),
    ("a.c", "/* Handles replies generated by the server. Do not modify them elsewhere. */\n", None),
    ("a.rs", "/// receives a signal generated by ctrl-c\nfn a() {}\n", None),
    ("app.js", "var a=1;" * 2_000, "minified"),
    ("app.js", ("var a=1;" * 200 + "\n") * 20, "minified"),  # bundled in lines of 1,600
    ("long.py", "x = '" + "a" * 4_000 + "'\n", None),
    ("table.c", "int t[] = {" + "\n".join("1, 2, 3, 4, 5, 6, 7, 8," for _ in range(2_000)) + "};\n", "data"),
    ("few.c", "int t[] = {1, 2, 3};\n", None),
    ("vectors.txt", "\n".join("the " + "0.123456 " * 50 for _ in range(100)), "data"),
    ("rows.json", "[\n" + ",\n".join('{"name": "row", "kind": "x"}' for _ in range(8_000)) + "\n]", "data"),
    ("api.json", '{\n  "name": "x"\n}\n', None),
    ("icon.svg", "<svg>" + "\n".join('<path d="M1 2 L3 4"/>' for _ in range(600)) + "</svg>", "data"),
    ("small.svg", '<svg><path d="M1 2 L3 4"/></svg>', None),
    ("people.csv", "\n".join("name,street,town" for _ in range(4_000)), "data"),
    ("columns.csv", "name,street,town\n", None),
    ("server.pem", KEY, "secret"),
    ("server.pem", "-----BEGIN CERTIFICATE-----\nMIIDXTCCAkWgAwIBAgIJ\n-----END CERTIFICATE-----\n", None),
    ("tls.go", f"package a\n\nvar key = `{KEY}`\n", None),  # masked instead
    ("a.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "lfs_pointer"),
    ("a.dat", "\0\1\2" * 100, "binary"),
    ("a.py", "x = 1\n" * 200_000, "too_large"),
]


@pytest.mark.parametrize(("path", "content", "expected"), CONTENTS)
def test_contents(path: str, content: str, expected: str | None) -> None:
    raw = content.encode()
    keep = judge(path)
    assert isinstance(keep, Keep)
    verdict = select.by_facts(keep, len(raw), decode(raw)[1], Rules())
    assert reason(verdict) == expected
    assert not isinstance(verdict, Skip) or verdict.rule


def test_a_generated_header_counts_for_nothing_where_generated_code_is_let_in() -> None:
    raw = b"// Code generated by x. DO NOT EDIT.\npackage a\n"
    told = parse({b".gitattributes": b"a.go linguist-generated=false\n"})
    for rules, policy_ in ((Rules(include_generated=True), Policy()), (Rules(), told)):
        keep = judge("a.go", rules, policy_)
        assert isinstance(keep, Keep)
        assert isinstance(select.by_facts(keep, len(raw), decode(raw)[1], rules), Keep)


# --- .gitattributes -------------------------------------------------------------------------------------------------

# The file's lines, a path, and the reason.
ATTRIBUTES: list[tuple[str, str, str | None]] = [
    ("gen/* linguist-generated=true", "gen/a.py", "generated"),
    ("gen/* linguist-generated=true", "gen/b/a.py", None),  # * does not cross /
    ("gen linguist-generated", "gen/a.py", None),  # unlike in .gitignore, a folder says nothing of its files
    ("gen/** linguist-generated", "gen/b/a.py", "generated"),
    ("*.py linguist-vendored", "a/b.py", "vendored"),
    ("*.py linguist-vendored\na/*.py -linguist-vendored", "a/b.py", None),  # the last match wins
    ("a_pb2.py -linguist-generated", "a_pb2.py", None),  # the owner knows better than our tables
    ("vendor/** linguist-vendored=false", "vendor/ours/a.go", None),
    ("a_pb2.py linguist-generated\n*.py !linguist-generated", "a_pb2.py", "generated"),  # unspecified: our table
    ("*.psd filter=lfs diff=lfs merge=lfs -text", "a.psd", "lfs_pointer"),
    ("[attr]theirs linguist-vendored linguist-generated=false\nx/** theirs", "x/a.py", "vendored"),
    ('"a b.py" linguist-generated', "a b.py", "generated"),
    ("secret.txt export-ignore", "secret.txt", None),
    ("*.md linguist-documentation", "a.md", None),
]


@pytest.mark.parametrize(("lines", "path", "expected"), ATTRIBUTES)
def test_attributes(lines: str, path: str, expected: str | None) -> None:
    verdict = judge(path, told=parse({b".gitattributes": lines.encode()}))
    assert reason(verdict) == expected
    if isinstance(verdict, Skip) and verdict.rule.startswith(".git"):
        number = int(verdict.rule.split(":")[1])
        assert verdict.rule == f".gitattributes:{number}: {lines.splitlines()[number - 1]}"


_GLOBS = """gen/* gen gen/ /gen gen/** **/gen gen/**/c a/**/d.py a/** *.go /*.go src/*.go * ** a?b *.[gm]* "a\\ b.txt"
a[[:space:]]b.txt **/x.md docs/**/x.md !gen \\[x\\].js [x].js é.py src/é.py a/x /a/x a*c*b*c x */a d/**/ ge* """
_STATES = """linguist-generated -linguist-generated !linguist-generated linguist-generated=false linguist-vendored
linguist-vendored=true mine -mine both filter=lfs -filter linguist-documentation=x text"""
_PATHS = """a gen gen/a gen/b/c x/gen/a src/a.go src/gen/a.go a/b/c/d.py docs/x.md docs/y/x.md .gitattributes src/é.py
[x].js a/x b/a/x abcabc"""
GLOBS, STATES, PATHS = _GLOBS.split(), _STATES.split(), _PATHS.split()


@pytest.mark.parametrize("seed", range(12))
def test_attributes_are_what_git_says(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    files: dict[bytes, bytes] = {}
    for name in [".gitattributes", *chance.sample(["gen/.gitattributes", "src/.gitattributes"], chance.randrange(3))]:
        lines = [f"{chance.choice(GLOBS)} {' '.join(chance.sample(STATES, 2))}" for _ in range(chance.randint(1, 6))]
        lines.insert(chance.randrange(len(lines)), "[attr]mine linguist-vendored -linguist-generated")
        lines.insert(chance.randrange(len(lines)), "[attr]both mine filter=lfs")
        files[name.encode()] = chance.choice(["\n", "\r\n"]).join(lines).encode()
    run_git(tmp_path, "init", "-q")
    for path, content in files.items():
        (tmp_path / path.decode()).parent.mkdir(exist_ok=True)
        (tmp_path / path.decode()).write_bytes(content)
    names = [policy.GENERATED, policy.VENDORED, policy.DOCUMENTATION, policy.FILTER]
    asked = "\0".join(PATHS).encode() + b"\0"
    fields = run_git(tmp_path, "check-attr", "-z", "--stdin", *names, stdin=asked).encode().decode().split("\0")
    told, words = parse(files), {True: "set", False: "unset", None: "unspecified"}
    for path, name, expected in zip(fields[::3], fields[1::3], fields[2::3], strict=False):
        setting = told.attributes(path).get(name)
        state = setting.state if setting else None
        assert words.get(state, state) == expected, (path, name, files)  # type: ignore[call-overload]


def test_hostile_patterns_end(tmp_path: Path) -> None:
    stars = ("*a" * 30 + "b").encode()
    told = parse(
        {b".gitattributes": stars + b" linguist-generated\n", b".gitstrataignore": stars + b"\n" + b"**/" * 40}
    )
    assert isinstance(judge("a" * 200, told=told), Keep)
    chain = b"\n".join(b"[attr]m%d m%d" % (i, i + 1) for i in range(5_000)) + b"\n* m0\n[attr]x x\n* x"
    assert parse({b".gitattributes": chain}).attributes("a") == {}
    odd = b"\n".join(pattern + b" linguist-generated" for pattern in (b"\xff\xfe", b"[", b"!", b"\\", b'"a', b"[z-a]"))
    assert isinstance(judge("a.py", told=parse({b".gitattributes": odd, b".gitstrataignore": odd})), Keep)


# --- policy files in a repository -----------------------------------------------------------------------------------


def test_a_change_of_attributes_decides_again_and_reads_nothing_again(
    index: Indexer, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.write("out/a.py", "def a():\n    return 1\n")
    repo.commit(b_py="def b():\n    return 2\n")
    index(repo, name="r")
    repo.write(".gitattributes", "out/** linguist-generated\n")
    repo.commit("attributes")
    read: list[str] = []
    before = git.ObjectReader.read
    monkeypatch.setattr(git.ObjectReader, "read", lambda self, oid: (read.append(oid), before(self, oid))[1])
    index(repo, name="r")
    assert paths(index.database) == {".gitattributes": None, "b.py": None, "out/a.py": "generated"}
    assert set(read) == {repo.git("rev-parse", "HEAD:.gitattributes")}  # for the policy, and to index it
    repo.write(".gitattributes", "# about line ends\n*.py text eol=lf\n")
    repo.commit("other attributes")
    read.clear()
    report = index(repo, name="r")
    assert paths(index.database)["out/a.py"] is None
    assert report.outcome == "done"


def test_an_ignore_file_denies_and_purges_and_cannot_let_in(index: Indexer, repo: Repo) -> None:
    repo.write("private/a.py", "def hidden_by_owner():\n    return 1\n")
    repo.write("docs/b.md", "# B\n")
    repo.commit(c_py="def c():\n    return 3\n")
    rules = Rules(deny=("docs/",))
    index(repo, name="r", rules=rules)
    repo.write(".gitstrataignore", "# ours\nprivate/\n!docs/\n")
    repo.commit("ignore")
    index(repo, name="r", rules=rules)
    assert list(paths(index.database)) == [".gitstrataignore", "c.py"]
    with index.database.connect() as connection:
        assert not connection.execute("select 1 from text where body like '%%hidden_by_owner%%'").fetchall()
        assert not connection.execute("select 1 from piece where body like '%%hidden_by_owner%%'").fetchall()


def test_policy_files_hold_even_if_denied_and_are_not_stored_for_it(index: Indexer, repo: Repo) -> None:
    repo.write(".gitattributes", "a.py linguist-generated\n")
    repo.write(".gitstrataignore", "b.py\n")
    repo.commit(a_py="a = 1\n", b_py="b = 1\n", c_py="c = 1\n")
    rules = Rules(deny=(".git*",))
    index(repo, name="r", rules=rules)
    assert paths(index.database) == {"a.py": "generated", "c.py": None}
    with index.database.connect() as connection:
        assert len(connection.execute("select 1 from blob").fetchall()) == 1
    first = published(index.database)
    index(repo, name="r", rules=rules)
    assert published(index.database) == first


def test_an_ignore_file_that_is_a_link_or_lies_deeper_says_nothing(index: Indexer, repo: Repo) -> None:
    repo.write("src/.gitstrataignore", "*\n")
    repo.write("all", "*\n")
    (repo.path / ".gitstrataignore").symlink_to("all")
    repo.commit(a_py="a = 1\n")
    index(repo, name="r")
    assert paths(index.database)["a.py"] is None


def test_let_in_and_out_again(index: Indexer, repo: Repo) -> None:
    repo.write("vendor/a.go", "package a\n\nfunc A() int { return 1 }\n")
    repo.write("b.go", "// Code generated by x. DO NOT EDIT.\npackage b\n\nfunc B() int { return 1 }\n")
    repo.commit()
    index(repo, name="r")
    assert paths(index.database) == {"b.go": "generated", "vendor/a.go": "vendored"}
    index(repo, name="r", rules=Rules(include_generated=True, include_vendored=True))
    assert paths(index.database) == {"b.go": None, "vendor/a.go": None}
    index(repo, name="r")
    assert paths(index.database) == {"b.go": "generated", "vendor/a.go": "vendored"}


def test_every_reason_has_a_meaning() -> None:
    from flows.names import MEANINGS

    assert set(MEANINGS) == set(SkipReason)
    page = (Path(__file__).parent.parent.parent / "docs/selection.md").read_text()
    assert not [reason for reason in SkipReason if f"`{reason}`" not in page]
