-- What a request limited to projects sees. Such a request puts this schema first in its search_path and names its projects
-- in gitstrata.projects (a JSON array): every statement that says "repo", "branch" or "sync_run" then reads these views,
-- whoever wrote it. A repository in none of the projects does not exist, nor do other projects' names. All other tables
-- are only reached through ids of branches. The schema stands beside the one that holds the tables, named after it.
-- depends: 0001_spine

do $$
begin
    execute format('create schema %I', current_schema() || '_scope');
    execute format($view$
        create view %1$I.repo with (security_barrier) as
        select r.repo_id, r.name, r.origin, r.source, r.added_at,
            jsonb_set(r.config, '{projects}', (
                select coalesce(jsonb_agg(p order by p), '[]') from jsonb_array_elements(r.config -> 'projects') p
                where current_setting('gitstrata.projects', true)::jsonb @> p
            )) as config
        from %2$I.repo r
        where exists (
            select 1 from jsonb_array_elements_text(r.config -> 'projects') p
            where current_setting('gitstrata.projects', true)::jsonb ? p
        )
    $view$, current_schema() || '_scope', current_schema());
    execute format(
        'create view %1$I.branch with (security_barrier) as'
        ' select b.* from %2$I.branch b where b.repo_id in (select repo_id from %1$I.repo)',
        current_schema() || '_scope', current_schema());
    execute format(
        'create view %1$I.sync_run with (security_barrier) as'
        ' select s.* from %2$I.sync_run s where s.repo in (select name from %1$I.repo)',
        current_schema() || '_scope', current_schema());
end
$$;
