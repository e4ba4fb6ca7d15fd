-- Signs of vectors in one row a cut: a search keeps them in memory, and reads as many rows as there are new cuts.
-- depends: 0013_weights

lock table model, cut, chunk in access exclusive mode;

alter table model add column rewrites bigint not null default 0;  -- of signs that stood already

do $$
declare
    found record;
begin
    for found in select signs, dimension from model loop
        execute format('alter table %I rename to signs_before', found.signs);
        execute format('create table %I (cut_id bigint not null, texts bytea not null, levels bytea not null,'
            ' signs bytea not null)', found.signs);
        execute format('alter table %I alter texts set storage external, alter levels set storage external,'
            ' alter signs set storage external', found.signs);
        execute format('insert into %I select cut_id, string_agg(int8send(text_id), '''' order by ord),'
            ' string_agg(substring(int2send(level) from 2), '''' order by ord),'
            ' string_agg(substring(bit_send(signs) from 5), '''' order by ord)'
            ' from signs_before group by cut_id order by cut_id', found.signs);
        drop table signs_before;
        execute format('alter table %I add primary key (cut_id), add foreign key (cut_id) references cut'
            ' on delete cascade', found.signs);
    end loop;
end
$$;
