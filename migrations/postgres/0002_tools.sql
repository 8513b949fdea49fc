-- The catalogue of tools that agents may recommend, and what the server remembers about itself.

create table setting (
    name text primary key,
    value text not null
);

create table tool (
    id text primary key,
    name text not null,
    purpose text not null,
    operations text not null,                 -- JSON list, like the next two
    inputs text not null,
    outputs text not null,
    homepage text not null,                   -- empty when unknown
    search tsvector not null                  -- the words for full-text search; SQLite keeps them in a table of their own
);
create index tool_search on tool using gin (search);
