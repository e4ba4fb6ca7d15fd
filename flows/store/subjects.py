"""What subjects of commits say: files that earlier commits changed for the like of a question.

Each commit that changes few files keeps the words of its subject. A question's words are weighed as its search weighs
them, and a commit counts by the share of that weight that its subject says; merges have no facts and wide commits no
words. No commit after the published one counts: facts are those behind a tip, and while that is another one than the
published commit, as before its facts are read, those dated later are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from chunkers import words
from flows.store.connect import Connection

WIDEST = 30  # files of a commit; 10 and 100 measured alike
BEST = 20  # commits that count; 10 to 50 measured alike
MAX_BRANCHES = 8  # of one search, those of its leading files: each costs as much
READ = 2_000  # newest commits that have one of the words
BY_THE_WAY = 1 / 3  # of a question's weight: its commonest words up to that share bring no commit in, they only count
MAX_RENAMES = 20  # of one path
_BATCH = 5_000


def split(branch_id: int, subject: str, files: int) -> list[str]:
    """Return the words of a commit's subject as they are stored; none for one that changes no file, or many."""
    if not 0 < files <= WIDEST:
        return []
    return sorted({_scoped(branch_id, word) for word in words.words(subject)})


def split_again(connection: Connection, branch_id: int) -> None:
    """Split the subjects of all commits of a branch, as an earlier program split none, or otherwise."""
    last = 0
    while rows := connection.execute(
        "select commit_id, subject, files from history_commit where branch_id = %s and commit_id > %s"
        " order by commit_id limit %s",
        [branch_id, last, _BATCH],
    ).fetchall():
        last = rows[-1][0]
        with connection.transaction(), connection.cursor() as cursor:
            cursor.executemany(
                "update history_commit set words = %s where commit_id = %s",
                [(split(branch_id, subject, files), number) for number, subject, files in rows],
            )


def _scoped(branch_id: int, word: str) -> str:
    return f"{branch_id}/{word}"


def touched(
    connection: Connection, branch_ids: Sequence[int], weights: Sequence[tuple[str, float]]
) -> dict[tuple[int, str], float]:
    """Return how much earlier commits of a file say of a question, 0 to 1, by branch and path as it is called now.

    The sum over the BEST commits of the share of ``weights`` that the subject says, by the root of how many files the
    commit changed; at most 1. Exact renames are followed.
    """
    if not weights or not branch_ids:
        return {}
    whole = [max(1, round(1_000 * weight)) for _, weight in weights]  # their sums do not depend on an order
    rows = connection.execute(
        """
        with recursive said as materialized (
            select c.commit_id, c.files, c.at, c.sha, c.words
            from history_commit c join history h using (branch_id) join branch b using (branch_id)
            where c.words && %(required)s::text[] and (h.tip = b.commit_sha or c.at <= b.committed_at)
            order by c.at desc nulls last, c.sha limit %(read)s
        ), heard as materialized (
            select commit_id, word from (select commit_id, unnest(words) as word from said offset 0) w
            where word = any(%(asked)s::text[])
        ), weighed as materialized (
            select h.commit_id, sum(a.weight) as weight
            from heard h join unnest(%(asked)s::text[], %(weights)s::int[]) a (word, weight) on a.word = h.word
            group by h.commit_id
        ), best as materialized (
            select commit_id, s.files, w.weight / sqrt(s.files) as value
            from weighed w join said s using (commit_id)
            order by w.weight desc, s.at desc nulls last, s.sha limit %(best)s
        ), line (commit_id, path_id, depth) as (
            select t.commit_id, t.path_id, 0 from best join touch t using (commit_id)
            union
            select l.commit_id, t.path_id, l.depth + 1 from line l join touch t on t.old_id = l.path_id
            where l.depth < %(renames)s
        )
        select p.branch_id, p.path, sum(b.value order by b.value)
        from (select distinct commit_id, path_id from line) l join best b using (commit_id)
        join history_path p using (path_id) group by p.branch_id, p.path
        """,
        {
            "asked": [_scoped(branch, word) for branch in branch_ids for word, _ in weights],
            "weights": whole * len(branch_ids),
            "required": [_scoped(branch, word) for branch in branch_ids for word in _required(weights)],
            "read": READ,
            "best": BEST,
            "renames": MAX_RENAMES,
        },
    )
    return {(branch, path): min(1.0, value / sum(whole)) for branch, path, value in rows}


def _required(weights: Sequence[tuple[str, float]]) -> list[str]:
    """Return the words of which a subject must say one: without the others, it says too little to count."""
    left = BY_THE_WAY * sum(weight for _, weight in weights)
    required = []
    for word, weight in sorted(weights, key=lambda pair: (pair[1], pair[0])):
        left -= weight
        if left < 0:
            required.append(word)
    return required
