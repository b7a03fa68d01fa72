-- Idempotency keys of requests. The key itself is in no row: its digest is.
create table request_key (
  key text primary key check (length(key) = 64),
  author text not null,
  request text not null check (length(request) = 64),
  seed blob not null,
  holder blob not null,                  -- the attempt that has it; nil: none
  node_id integer,                        -- where that runs
  at integer not null,
  held_at integer not null,
  done integer check (done >= 0),         -- the last step of the request that was done
  status integer check (status between 100 and 599),
  kind text,
  body text,                             -- null: too long, or not to be kept
  check ((status is null) = (kind is null)),
  check (body is null or status is not null)
) strict;
create index request_key_at on request_key (at);
create index request_key_author on request_key (author);
