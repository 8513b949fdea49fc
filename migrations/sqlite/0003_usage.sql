-- Tokens that each person's turns used, by day (UTC, days since 1970).

create table token_usage (
    user_id bigint not null references user_account (id) on delete cascade,
    day bigint not null,
    input bigint not null,
    output bigint not null,
    primary key (user_id, day)
);
