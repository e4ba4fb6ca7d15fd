-- Exact search: which blobs can hold a text. pg_trgm drops punctuation, so that `->` or `x.y` could not be looked up:
-- it is read as digits here, and white space alone parts words. The expression is that of flows/store/trigrams.py.
-- An index on the array of trigrams, unlike gin_trgm_ops, answers without reading a single text again.
-- depends: 0001_spine

create index blob_trigram on blob using gin (
    show_trgm(translate(lower(body collate "C"), '_-+*/=<>(){}[].,;:!?&|^%$#@~`''"\ſK', '01234567890123456789012345678901sk'))
);  -- with fastupdate: a fourth of the cost of a blob; each run merges what is pending at its end
alter index blob_trigram alter column 1 set statistics 0;  -- they would cost more than all other statistics together

create index symbol_last on symbol (lower(substring(name from '[^.]*$')));  -- the name without what it belongs to
create index file_skipped on file (branch_id) where skip is not null;
