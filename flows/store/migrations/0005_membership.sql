-- Which texts a branch shows, beside the signs of their vectors: one table a model, so that a scope is scanned without
-- joining its files and without reading whole vectors. Follows from file, chunk and emb_<model>; moved by each publish.
-- depends: 0001_spine

alter table model add column members text unique;
update model set members = 'member' || substr(vectors, 4);
alter table model alter column members set not null;

do $$
declare
    found record;
begin
    for found in select vectors, members, dimension from model loop
        execute format('create table %I (branch_id int not null references branch on delete cascade,'
            ' text_id bigint not null, signs bit(%s) not null, primary key (text_id, branch_id))',
            found.members, found.dimension);
        execute format('insert into %I select branch_id, text_id, binary_quantize(vector)::bit(%s) from'
            ' (select distinct f.branch_id, c.text_id from file f join chunk c using (cut_id)) s'
            ' join %I using (text_id) order by branch_id, text_id', found.members, found.dimension, found.vectors);
        execute format('create index on %I (branch_id)', found.members);
    end loop;
end
$$;
