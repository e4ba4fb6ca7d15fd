"""What subjects of commits say: files that earlier commits changed for the like of a question.

Each commit that changes few files keeps the words of its subject. A question's words are weighed as its search weighs
them, and a commit counts by the share of that weight that its subject says; merges have no facts and wide commits no
words. Nothing here knows of a commit that the published one does not follow: the facts are those behind a tip, and
while that is not the published commit, those dated later do not count.
"""

from __future__ import annotations

from collections.abc import Sequence

from chunkers import words
from flows.store.connect import Connection

WIDEST = 30  # files of a commit; 10 and 100 measured alike
BEST = 20  # commits that count; 10 to 50 measured alike
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
    total = sum(weight for _, weight in weights)
    if not total or not branch_ids:
        return {}
    rows = connection.execute(
        """
        with recursive asked as materialized (
            select b || '/' || word as word, weight from unnest(%(branches)s::int[]) b
            cross join unnest(%(words)s::text[], %(weights)s::float8[]) w (word, weight)
        ), said as materialized (
            select c.* from history_commit c join history h using (branch_id) join branch b using (branch_id)
            where c.words && %(required)s::text[] and (h.tip = b.commit_sha or c.at <= b.committed_at)
            order by c.at desc nulls last, c.sha limit %(read)s
        ), best as materialized (
            select s.commit_id, s.files, round(sum(a.weight order by a.weight)::numeric, 9)::float8 as weight
            from said s cross join lateral unnest(s.words) u (word) join asked a on a.word = u.word collate "C"
            group by s.commit_id, s.files, s.at, s.sha order by 3 desc, s.at desc nulls last, s.sha limit %(best)s
        ), line (commit_id, path_id, depth) as (
            select t.commit_id, t.path_id, 0 from best join touch t using (commit_id)
            union
            select l.commit_id, t.path_id, l.depth + 1 from line l join touch t on t.old_id = l.path_id
            where l.depth < %(renames)s
        )
        select p.branch_id, p.path, sum(b.weight / sqrt(b.files) order by b.weight / sqrt(b.files))
        from (select distinct commit_id, path_id from line) l join best b using (commit_id)
        join history_path p using (path_id) group by p.branch_id, p.path
        """,
        {
            "branches": list(branch_ids),
            "words": [word for word, _ in weights],
            "weights": [weight for _, weight in weights],
            "required": [_scoped(branch, word) for branch in branch_ids for word in _required(weights)],
            "read": READ,
            "best": BEST,
            "renames": MAX_RENAMES,
        },
    )
    return {(branch, path): min(1.0, weight / total) for branch, path, weight in rows}


def _required(weights: Sequence[tuple[str, float]]) -> list[str]:
    """Return the words of which a subject must say one: without the others, it says too little to count."""
    left = BY_THE_WAY * sum(weight for _, weight in weights)
    required = []
    for word, weight in sorted(weights, key=lambda pair: (pair[1], pair[0])):
        left -= weight
        if left < 0:
            required.append(word)
    return required
