-- Beside each piece of text a sieve: which strings of six characters it may hold (flows/store/sieve.py). The trigrams of a
-- name such as ignore_patterns stand in thousands of pieces, of which some have the name. Pieces without a sieve are
-- searched as before; the next run that publishes gives them one. And each branch counts what it skips, so that no
-- search has to.
-- depends: 0013_weights

alter table piece add column sieve bytea;
alter table piece alter column sieve set storage plain;  -- as good as random, and read with the row or not at all
create index piece_unsieved on piece (blob_id, line) where sieve is null;

alter table branch add column skipped jsonb not null default '{}';  -- files by reason
update branch b set skipped = s.skipped from (
    select branch_id, jsonb_object_agg(skip, n) as skipped
    from (select branch_id, skip, count(*) as n from file where skip is not null group by 1, 2) f group by 1
) s where s.branch_id = b.branch_id;

do $$
begin
    execute format(
        'create or replace view %1$I.branch with (security_barrier) as'
        ' select b.* from %2$I.branch b where b.repo_id in (select repo_id from %1$I.repo)',
        current_schema() || '_scope', current_schema());
end
$$;
