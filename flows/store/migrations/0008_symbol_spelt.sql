-- Definitions by the last part of their name, written any way: HTTPClient, http_client and a.b.httpClient meet.
-- depends: 0001_spine

create index symbol_spelt on symbol (lower(translate(substring(name from '[^.]*$'), '_$-', '')));
