-- depends: 0001_spine

alter table file add column category text not null default '';  -- docs or code where .gitattributes says so
