-- Case notes are written by agents and people, never by a sync: they refer to nothing that is indexed, and nothing that
-- indexes, collects or purges refers to them. Their text is the truth; words and vectors are made from it again.
-- depends: 0002_category

create table case_note (
    case_id  text collate "C" primary key  -- random, so that it says nothing of how many notes others have
             default 'case-' || substr(replace(gen_random_uuid()::text, '-', ''), 1, 12),
    project  text collate "C" not null default '',
    concept  text not null,
    solution text not null,
    terms    text[] not null,              -- words of both, by this version of what a word is
    words_version smallint not null,
    added_at timestamptz not null default clock_timestamp()
);
create index case_note_project on case_note (project, added_at);

create table case_vector (                 -- one a note and model: a rollback finds the old ones
    case_id     text collate "C" not null references case_note on delete cascade,
    fingerprint text not null,
    vector      halfvec not null,
    primary key (case_id, fingerprint)
);
