-- Calls of tools: which ran, what a person allows in a conversation, and what other processes want of a turn.

-- A call that ran, or was about to: a second row for it cannot be made, so it runs once.
create table tool_run (
    turn_id bigint not null references chat_exchange_message (id) on delete cascade,
    call text not null,
    tool text not null,
    started_at bigint not null,
    primary key (turn_id, call)
);

-- What counts how often a tool of the tests really ran.
create table test_run (
    id integer primary key autoincrement,
    chat_exchange_id bigint not null references chat_exchange (id) on delete cascade,
    tool text not null
);
create index test_run_by_exchange on test_run (chat_exchange_id);

-- "Always allow here": the owner of the conversation is asked no more for this tool in it.
create table tool_grant (
    chat_exchange_id bigint not null references chat_exchange (id) on delete cascade,
    tool text not null,
    primary key (chat_exchange_id, tool)
);

-- For the process that runs the turn.
create table turn_order (
    id integer primary key autoincrement,
    turn_id bigint not null references chat_exchange_message (id) on delete cascade,
    body text not null,                       -- JSON
    created_at bigint not null
);
create index order_by_turn on turn_order (turn_id);

-- A wish to stop is such an order now.
alter table chat_exchange_message drop column stop_requested;
