-- Beside each piece of text a sieve: which strings of six characters it may hold (flows/store/sieve.py). The trigrams of a
-- name such as ignore_patterns stand in thousands of pieces, of which some have the name. Pieces without a sieve are
-- searched as before; the next runs that publish give them one. And each branch says what it skips and how its last run
-- ended, so that no search has to find out.
-- depends: 0014_packed_signs

alter table piece add column sieve bytea;
alter table piece alter column sieve set storage plain;  -- as good as random, and read with the row or not at all
create index piece_unsieved on piece (blob_id, line) where sieve is null;

alter table branch add column skipped jsonb not null default '{}';  -- files by reason
alter table branch add column run_failed boolean not null default false;  -- the last run that ended, ended badly
update branch b set skipped = s.skipped from (
    select branch_id, jsonb_object_agg(skip, n) as skipped
    from (select branch_id, skip, count(*) as n from file where skip is not null group by 1, 2) f group by 1
) s where s.branch_id = b.branch_id;
update branch b set run_failed = true from repo r where r.repo_id = b.repo_id and (
    select s.outcome = 'failed' from sync_run s where s.repo = r.name and s.branch = b.name and s.outcome <> 'running'
    order by s.run_id desc limit 1
);

do $$
begin
    execute format(
        'create or replace view %1$I.branch with (security_barrier) as'
        ' select b.* from %2$I.branch b where b.repo_id in (select repo_id from %1$I.repo)',
        current_schema() || '_scope', current_schema());
end
$$;
