-- The text of a blob in pieces of 32 KiB, each line in the piece where it begins, each piece with trigrams of its own:
-- files of a megabyte hold nearly every trigram, so that exact search read dozens of them for a rare name. The cut is
-- that of flows/store/pieces.py, the expression that of flows/store/trigrams.py. It says in ASCII what is beyond ASCII,
-- byte by byte; replacing one character after another takes a sixth of what translate() took.
-- depends: 0004_trigram 0008_symbol_spelt 0009_projects

create table piece (
    blob_id bigint not null references blob on delete cascade,
    line    int not null,                 -- the number of its first line
    body    text not null,                -- a blob's pieces in a row are its decoded text; none if there is none to show
    primary key (blob_id, line)
);

insert into piece
select blob_id, 1, body from blob where octet_length(body) <= 32768;

insert into piece
select b.blob_id, p.* from blob b cross join lateral (
    select min(n), string_agg(line, '' order by n)
    from (
        select n, line, (sum(octet_length(line)) over (order by n) - octet_length(line)) / 32768 as piece
        from (
            select n, case when n < count(*) over () then part || e'\n' else part end as line
            from string_to_table(b.body, e'\n') with ordinality t (part, n)
        ) parts
    ) lines
    where line <> '' group by piece
) p
where octet_length(b.body) > 32768;

create index piece_trigram on piece using gin (
    show_trgm(
        replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(
        replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(
        replace(replace(replace(replace(replace(replace(
        encode(decode(replace(replace(replace(lower(body collate "C"), 'ſ', 's'), 'K', 'k'), '\', '1'), 'escape'), 'escape')
        , '\', 'q'), '_', '0'), '-', '1'), '+', '2'), '*', '3'), '/', '4'), '=', '5'), '<', '6')
        , '>', '7'), '(', '8'), ')', '9'), '{', '0'), '}', '1'), '[', '2'), ']', '3'), '.', '4')
        , ',', '5'), ';', '6'), ':', '7'), '!', '8'), '?', '9'), '&', '0'), '|', '1'), '^', '2')
        , '%', '3'), '$', '4'), '#', '5'), '@', '6'), '~', '7'), '`', '8'), '''', '9'), '"', '0')
    )
);  -- with fastupdate: a fourth of the cost of a blob; each run merges what is pending at its end
alter index piece_trigram alter column 1 set statistics 0;  -- they would cost more than all other statistics together

drop index blob_trigram;
alter table blob drop column body;
cluster blob using blob_pkey;             -- gives the space back, now
alter table blob set without cluster;

drop index symbol_last;                   -- symbol_spelt finds a name as it is written, too
