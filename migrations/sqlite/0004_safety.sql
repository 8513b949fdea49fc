-- What keys may do, names for programs, and who did what.

-- Keys made before this could do all that their owner may.
alter table api_key add column scope text not null default 'admin' check (scope in ('read', 'chat', 'admin'));

alter table user_account add column username text;    -- lower case; null: the part of the email before the @
create unique index user_by_username on user_account (username);

-- Sign-ins, use of keys, acts of administrators. No reference to the account: the log outlives it.
create table audit_log (
    id integer primary key autoincrement,
    at bigint not null,
    act text not null,
    actor text not null,                               -- an email, or the command line; empty: nobody known
    subject text not null,                             -- a key by its first characters, or another account
    address text not null                              -- of the other end; empty: the command line
);
create index audit_by_act on audit_log (act, actor, subject, address, at);
create index audit_by_time on audit_log (at);
