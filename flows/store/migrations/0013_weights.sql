-- What a term counts in a text, as BM25 has it, beside the terms: a search multiplies two sparse vectors, instead of
-- unpacking a text's terms and looking each of the query's up. The terms themselves need no positions any more.
-- Takes some minutes for a million texts. The formula is that of flows/store/texts.py.
-- depends: 0009_projects

lock table lex, lex_stat, text in access exclusive mode;  -- at once: whoever reads meanwhile waits, nobody deadlocks

create function pg_temp.term_weights(terms tsvector, length int) returns sparsevec language sql immutable as $$
    select coalesce((
        '{' || string_agg(index || ':' || 2.2::float8 * n / (n + 1.2::float8 * (0.25 + 0.75 * length / 100)), ',')
        || '}/1000000000')::sparsevec, '{}/1000000000'::sparsevec)
    from (
        select ('x' || substr(md5(lexeme), 1, 8))::bit(32)::bigint % 1000000000 + 1 as index,
            max(cardinality(positions)) as n
        from unnest(terms) group by 1
    ) t
$$;

alter table lex rename to lex_old;
create table lex (                        -- narrow, so that ranking reads no body
    text_id bigint not null,
    version smallint not null,
    length  int not null,                 -- in terms, repeated ones counted
    terms   tsvector not null,            -- for the inverted index
    weights sparsevec storage main not null
);
insert into lex
    select text_id, version, length, strip(terms), pg_temp.term_weights(terms, length) from lex_old order by text_id;
drop table lex_old;
alter table lex add constraint lex_pkey primary key (text_id),
    add constraint lex_text_id_fkey foreign key (text_id) references text on delete cascade;
create index lex_terms on lex using gin (terms) with (fastupdate = off);

alter table lex_stat drop column mean_length;  -- what a term counts in a text no longer depends on the others
