-- The words of commits' subjects, by which code_search finds files that were changed for the like of a question.
-- depends: 0009_projects

alter table history_commit
    add column words text[] collate "C" not null default '{}';  -- BRANCH/WORD, so that the index keeps branches apart
alter table history
    add column words int not null default 0;  -- version of what split them; 0: nothing yet, the next sync does
create index history_commit_words on history_commit using gin (words) with (fastupdate = off);
