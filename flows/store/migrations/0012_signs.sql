-- Signs and means of vectors by cut, instead of signs by branch: branches share them, a filter on files is one on cuts, and
-- what a file is about need not be averaged by every search.
-- depends: 0009_projects

lock table model, cut, chunk, file in access exclusive mode;  -- at once: whoever reads meanwhile waits, nobody deadlocks

alter table model add column signs text unique;
alter table model add column means text unique;
update model set signs = 'sign' || substr(vectors, 4), means = 'mean' || substr(vectors, 4);
alter table model alter column signs set not null, alter column means set not null;

do $$
declare
    found record;
begin
    for found in select vectors, members, signs, means, dimension, state from model loop
        execute format('create table %I (cut_id bigint not null, ord int not null, level smallint not null,'
            ' text_id bigint not null, signs bit(%s) not null)', found.signs, found.dimension);
        execute format('create table %I (cut_id bigint not null, vector halfvec(%s))', found.means, found.dimension);
        if found.dimension <= 1000 then
            execute format('alter table %I alter vector set storage plain', found.means);
        end if;
        if found.state = 'active' then
            execute format('insert into %I select c.cut_id, c.ord, c.level, c.text_id,'
                ' binary_quantize(v.vector)::bit(%s) from chunk c join %I v using (text_id)'
                ' where exists (select from file f where f.cut_id = c.cut_id) order by 1, 2',
                found.signs, found.dimension, found.vectors);
            execute format('insert into %I select c.cut_id, avg(v.vector order by c.ord)'
                ' filter (where c.level > 0 and c.ord <= 200) from chunk c join %I v using (text_id) where exists (select from file f where f.cut_id = c.cut_id)'
                ' group by 1 order by 1', found.means, found.vectors);
        end if;
        execute format('alter table %I add primary key (cut_id, ord), add foreign key (cut_id, ord) references chunk'
            ' on delete cascade', found.signs);
        execute format('alter table %I add primary key (cut_id), add foreign key (cut_id) references cut'
            ' on delete cascade', found.means);
        execute format('drop table %I', found.members);
    end loop;
end
$$;

alter table model drop column members;
