-- Facts of commits, apart from the snapshot: who changed which paths of a repository, as of its default branch.
-- depends: 0002_category

create table history (                    -- what is known of a branch's past; no row: nothing
    branch_id   int primary key references branch on delete cascade,
    tip         text not null,            -- the facts are those of commits behind it
    is_complete boolean not null,         -- of all of them, or of those since ...
    since       timestamptz,
    rules       text not null,            -- digest of the rules that keep paths out of it
    mailmap     text not null,            -- object id of the .mailmap that people are shown by, '' without one
    owners      text not null             -- and of the CODEOWNERS
);

create table person (                     -- as commits name them, and as .mailmap does
    person_id   int generated always as identity primary key,
    branch_id   int not null references history on delete cascade,
    name        text collate "C" not null,
    email       text collate "C" not null,
    shown_name  text collate "C" not null,
    shown_email text collate "C" not null,
    unique (branch_id, name, email)
);

create table history_path (
    path_id   int generated always as identity primary key,
    branch_id int not null references history on delete cascade,
    key       bytea not null,             -- hash of the path: a path can be too long for an index
    path      text collate "C" not null,
    owners    text[] not null,            -- by CODEOWNERS
    unique (branch_id, key)
);

create table history_commit (             -- never changed; merges have no row
    commit_id  bigint generated always as identity primary key,
    branch_id  int not null references history on delete cascade,
    sha        text collate "C" not null,
    at         timestamptz,               -- null: unknown
    author     int not null,              -- person
    co_authors int[] not null,
    subject    text not null,             -- '' where it names what is denied
    files      int not null,              -- changed ones that are allowed
    unique (branch_id, sha)
);
create index history_commit_newest on history_commit (branch_id, at desc nulls last);

create table touch (
    path_id   int not null references history_path on delete cascade,
    commit_id bigint not null references history_commit on delete cascade,
    old_id    int references history_path on delete set null,  -- the path that was renamed
    primary key (path_id, commit_id)
);
create index touch_commit on touch (commit_id);
create index touch_old on touch (old_id) where old_id is not null;
