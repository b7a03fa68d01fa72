-- Alerts, and what is to be sent of them. Runs that ended without success are found by when they did: the
-- index is made while writers wait, and has a row for each of those alone.
create table alert (
  name text collate "C" primary key check (length(name) <= 300),
  document text not null
);
create table notice (
  id uuid primary key,
  receiver text collate "C" not null check (length(receiver) <= 100),
  body text not null,
  created_at bigint not null,
  due_at bigint not null,
  tries integer not null check (tries >= 0)
);
create index notice_due on notice (due_at, id);
create index notice_receiver on notice (receiver);
create index run_unsuccessful on run (ended_at, id) where ended_at is not null and state <> 'succeeded';
