-- Generations of vectors: one model that search uses, one that is being built beside it, some kept for a rollback.
-- depends: 0001_spine

alter table model add column setting text not null default '';  -- what loads it: '' the shipped one, a name, folder, endpoint
update model set setting = name where name not like 'gitstrata-static-%';

alter table model add column state text not null default 'retired' check (state in ('building', 'active', 'retired'));
alter table model add column changed_at timestamptz not null default now();  -- when it came into this state
update model set state = 'active' where is_active;
alter table model drop column is_active;
create unique index model_active on model (state) where state = 'active';
create unique index model_building on model (state) where state = 'building';
