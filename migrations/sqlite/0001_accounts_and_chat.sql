-- Times are milliseconds since 1970, UTC. Booleans are 0 or 1. JSON is text. The PostgreSQL file of the same number says the same.

create table user_account (
    id integer primary key autoincrement,
    email text not null unique,               -- lower case
    password_hash text,                       -- argon2id; null: signs in through a trusted proxy only
    admin bigint not null default 0 check (admin in (0, 1)),
    created_at bigint not null
);

-- One row at most: decides, even between two processes, which account was the first and so is an administrator.
create table first_account (
    one bigint primary key check (one = 1),
    user_id bigint not null references user_account (id)
);

create table session (
    token_hash text primary key,              -- SHA-256 of the cookie; the cookie itself is stored nowhere
    user_id bigint not null references user_account (id) on delete cascade,
    created_at bigint not null,
    seen_at bigint not null,
    expires_at bigint not null
);
create index session_by_user on session (user_id);
create index session_by_expiry on session (expires_at);

create table api_key (
    id integer primary key autoincrement,
    user_id bigint not null references user_account (id) on delete cascade,
    name text not null,
    prefix text not null,                     -- first characters, to tell keys apart
    secret_hash text not null unique,         -- SHA-256; the key is shown once
    created_at bigint not null,
    used_at bigint
);
create index api_key_by_user on api_key (user_id);

-- One conversation.
create table chat_exchange (
    id integer primary key autoincrement,
    user_id bigint not null references user_account (id) on delete cascade,
    job_id bigint,
    page_id bigint,
    uuid text not null unique,                -- chosen by the client
    title text not null,
    agent_type text not null,                 -- answered last, else asked last
    turn_count bigint not null default 0,     -- of the active branch
    created_at bigint not null,
    updated_at bigint not null,
    deleted_at bigint,
    check (job_id is null or page_id is null)
);
create index general_history on chat_exchange (user_id, updated_at desc, id desc)
    where deleted_at is null and job_id is null and page_id is null;
create index deleted_exchanges on chat_exchange (deleted_at) where deleted_at is not null;

-- One turn: a question and what became of it.
create table chat_exchange_message (
    id integer primary key autoincrement,
    chat_exchange_id bigint not null references chat_exchange (id) on delete cascade,
    create_time bigint not null,
    message text not null,                    -- JSON: query, response, agent_type, agent_response, parts, …
    feedback bigint check (feedback in (0, 1)),
    feedback_reason text,
    uuid text not null unique,
    prompt_id text not null,                  -- the client's id of the question
    attempt bigint not null,                  -- 1, and one more for each retry of the same question
    parent_id bigint references chat_exchange_message (id),
    active bigint not null check (active in (0, 1)), -- on the branch that is shown
    state text not null check (state in ('running', 'paused', 'answered', 'failed', 'interrupted')),
    lease_owner text not null,                -- the process that runs it
    lease_until bigint not null,              -- after that, anyone may end it as lost
    epoch bigint not null default 1,          -- fencing: a writer with an older one is refused
    stop_requested bigint not null default 0 check (stop_requested in (0, 1)),
    unique (chat_exchange_id, prompt_id, attempt)
);
create unique index one_live_turn on chat_exchange_message (chat_exchange_id) where state in ('running', 'paused');
create index active_turns on chat_exchange_message (chat_exchange_id, active, id);
create index live_turns on chat_exchange_message (lease_until) where state in ('running', 'paused');

-- What happened to a live turn, in order. Removed when the turn ends: its row then says everything.
create table turn_event (
    turn_id bigint not null references chat_exchange_message (id) on delete cascade,
    seq bigint not null,
    event text not null,                      -- JSON
    primary key (turn_id, seq)
);
