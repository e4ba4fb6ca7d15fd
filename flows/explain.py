"""What becomes of one path of a commit, and which rule decided: the selection's answer with its reasons spelt out.

Rules are matched against the caller's own string: of a path that they deny it is never said whether it exists.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from chunkers import cut, languages
from flows import git, paths, policy, select
from flows.decode import decode
from flows.names import MEANINGS
from flows.select import Denied, Keep, Rules, Skip
from flows.store.cuts import LEVELS

Verdict = Literal["indexed", "skipped", "denied", "unknown"]


@dataclass(slots=True)
class Explanation:
    """The outcome for a path; what is "" or empty does not apply."""

    path: str
    commit: str
    verdict: Verdict
    reason: str = ""
    meaning: str = ""
    rule: str = ""  # what decided: a glob of the configuration, a line of a policy file, a built-in name, the content
    key: str = ""  # of the configuration, if that decided: allow, deny, languages or max_file_size
    entry: str = ""  # the deciding glob of the key's list
    language: str = ""
    category: str = ""
    encoding: str = ""
    undecodable: int = 0
    masked: int = 0  # secrets
    lines: int = 0
    fallback: str = ""  # why the language's own cutter was not used
    chunks: dict[str, int] = field(default_factory=dict)  # by level


def explain(repository: git.Repository, commit: git.Commit, rules: Rules, path: str) -> Explanation:
    """Judge ``path`` (as searches show it) at ``commit`` under ``rules``."""
    entries = git.list_tree(repository, commit.sha)
    told = policy.read(repository, entries)
    raw = paths.to_bytes(path.removeprefix("./"))
    answer = Explanation(path, commit.sha, "unknown")
    if denied := select.denies(raw.decode(errors="surrogateescape"), rules, told):
        return _denied(answer, denied)
    entry = next((entry for entry in entries if entry.path == raw), None)
    if entry is None:
        return answer
    match select.by_path(entry, rules, told):
        case Skip() as skip:
            return _skipped(answer, skip)
        case Keep() as keep:
            return _content(answer, repository, entry, keep, rules)
        case Denied() as denied:
            return _denied(answer, denied)


def _denied(answer: Explanation, denied: Denied) -> Explanation:
    answer.verdict, answer.rule, answer.key, answer.entry = "denied", denied.rule, denied.key, denied.entry
    return answer


def _skipped(answer: Explanation, skip: Skip) -> Explanation:
    answer.verdict, answer.reason, answer.rule = "skipped", str(skip.reason), skip.rule
    answer.meaning = MEANINGS[skip.reason]
    answer.key = {"language": "languages", "too_large": "max_file_size"}.get(skip.reason, "")
    return answer


def _content(
    answer: Explanation, repository: git.Repository, entry: git.Entry, keep: Keep, rules: Rules
) -> Explanation:
    size = git.sizes(repository, [entry.oid]).get(entry.oid, 0)
    decision = select.by_facts(keep, size, None, rules)
    text = ""
    if decision is None:
        with git.ObjectReader(repository) as reader:
            text, facts = decode(reader.read(entry.oid))
        answer.encoding, answer.undecodable = facts.encoding, facts.replaced
        answer.masked, answer.lines = facts.masked, facts.lines
        decision = select.by_facts(keep, size, facts, rules)
    answer.language = decision.language if isinstance(decision, Keep) else keep.language
    answer.category = keep.category or languages.get(answer.language).category
    if isinstance(decision, Skip):
        return _skipped(answer, decision)
    made = cut.cut(text, answer.language)
    counts = Counter(chunk.level for chunk in made.chunks)
    answer.verdict, answer.fallback = "indexed", made.fallback
    answer.chunks = {str(level): counts[level] for level in LEVELS}
    return answer
