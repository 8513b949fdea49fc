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
    homepage text not null                    -- empty when unknown
);

-- The same words for full-text search; PostgreSQL keeps them in a column of the table.
create virtual table tool_search using fts5 (id unindexed, name, purpose, operations, formats, tokenize = 'porter unicode61');
