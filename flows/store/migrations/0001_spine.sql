-- Content-addressed tables (blob, cut, symbol, chunk, text, lex, one emb_<model> a model) hold no path and are only
-- ever added to by a sync; locations (repo, branch, file) say which commit shows which content.
-- depends:

create table configuration (              -- who configures repositories, and how far it has got
    source       text primary key,        -- the repository and folder that hold the files
    sha          text not null,           -- the commit they were read from, '' if from no commit
    version_at   timestamptz not null,    -- of that commit, or when they were read
    published_at timestamptz not null default now()
);

create table repo (
    repo_id     int generated always as identity primary key,
    name        text collate "C" not null unique check (length(name) between 1 and 200),
    origin      text not null,            -- what the name stands for: host/owner/name, or an absolute path
    source      text references configuration,  -- the configuration that owns it; null: indexed ad hoc
    config      jsonb,                    -- as published by that configuration
    added_at    timestamptz not null default now(),
    check ((source is null) = (config is null))
);

create table branch (                     -- the state of a sync: moves with the rows it describes, in one transaction
    branch_id    int generated always as identity primary key,
    repo_id      int not null references repo on delete cascade,
    name         text collate "C" not null,
    is_default   boolean not null default false,
    generation   bigint not null default 0,
    commit_sha   text not null,
    tree_sha     text not null,
    committed_at timestamptz not null,
    rules_fp     text not null,           -- fingerprint of the selection rules it was built with
    files        int not null,            -- rows of file
    failed       int not null,            -- files with the reason 'failed': tried again by the next run
    purge_due    boolean not null default false,  -- rules changed: what nothing shows any more is to go
    chunks       int[] not null,          -- shown chunks by level: file, class, method, block
    head_sha     text,                    -- the tip last seen at the source, and when
    head_seen_at timestamptz,
    published_at timestamptz not null default now(),
    unique (repo_id, name)
);
create unique index branch_default on branch (repo_id) where is_default;

create table sync_run (
    run_id      bigint generated always as identity primary key,
    repo        text not null,
    branch      text not null,
    commit_sha  text,
    started_at  timestamptz not null default now(),
    finished_at timestamptz,
    outcome     text not null default 'running',
    report      jsonb not null default '{}',
    error       text not null default ''
);
create index sync_run_latest on sync_run (repo, branch, run_id desc);

create table model (
    model_id    int generated always as identity primary key,
    fingerprint text not null unique,
    name        text not null,
    dimension   int not null check (dimension between 1 and 4000),
    vectors     text not null unique,     -- the table that holds them
    is_active   boolean not null default false,
    added_at    timestamptz not null default now()
);
create unique index model_active on model (is_active) where is_active;

create table blob (
    blob_id bigint generated always as identity primary key,
    oid     text collate "C" not null unique,
    size    bigint not null,
    facts   jsonb not null,               -- what selection needs to know without reading the blob again
    body    text,                         -- decoded; null when the facts rule it out
    added_at timestamptz not null default now()
);

create table cut (
    cut_id      bigint generated always as identity primary key,
    blob_id     bigint not null references blob on delete cascade,
    language    text not null,
    fingerprint text not null,
    levels      int[] not null,           -- chunks by level: file, class, method, block
    symbols     int not null,
    fallback    text not null,            -- why the language's own cutter was not used, '' if it was
    orphaned_at timestamptz,              -- since when gc has seen no file that shows it
    unique (blob_id, language, fingerprint)
);

create table symbol (
    cut_id     bigint not null references cut on delete cascade,
    ord        int not null,
    name       text collate "C" not null,
    kind       text not null,
    start_line int not null,
    end_line   int not null,
    signature  text not null,
    doc        text not null,
    primary key (cut_id, ord)
);
create index symbol_name on symbol (name);

create table text (                       -- a chunk text, once, however many files and branches show it
    text_id bigint generated always as identity primary key,
    hash    bytea not null unique,
    body    text not null,
    added_at timestamptz not null default now()
);

create table chunk (
    cut_id     bigint not null references cut on delete cascade,
    ord        int not null,
    level      smallint not null,         -- 0 file, 1 class, 2 method, 3 block
    parent     int,                       -- ord of the chunk one level up
    anchor     text collate "C" not null,
    symbol     text collate "C" not null,
    signature  text not null,
    start_line int not null,
    end_line   int not null,
    text_id    bigint not null references text,
    primary key (cut_id, ord)
);
create index chunk_text on chunk (text_id);

create table lex (                        -- narrow, so that ranking reads no body
    text_id bigint primary key references text on delete cascade,
    version smallint not null,
    length  int not null,                 -- in terms, repeated ones counted
    terms   tsvector not null
);
create index lex_terms on lex using gin (terms) with (fastupdate = off);

create table lex_stat (                   -- term_df counts published texts only; a term that is not there occurs once
    generation int generated always as identity primary key,
    texts      int not null,
    mean_length real not null,
    moved      int not null default 0,    -- chunks that came or went since
    computed_at timestamptz not null default now()
);
create table term_df (
    generation int not null references lex_stat on delete cascade,
    term       text collate "C" not null,
    df         int not null,
    primary key (generation, term)
);

create table file (
    branch_id int not null references branch on delete cascade,
    entry     bytea not null,             -- hash of git's own tree record: mode, object id and path
    path      text collate "C" not null,  -- text form of flows/paths.py
    mode      text not null,
    oid       text collate "C" not null,
    language  text not null,              -- '' where none was decided
    skip      text,                       -- a reason of flows/select.py, or null
    cut_id    bigint references cut,
    primary key (branch_id, entry),
    check ((skip is null) = (cut_id is not null))
);
create index file_cut on file (cut_id) where cut_id is not null;
create index file_path on file using hash (path);
create index file_oid on file (oid);
